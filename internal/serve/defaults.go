package serve

import (
	"net"
	"slices"
	"strconv"

	"github.com/millrace/millrace/internal/apiserver/program"
	"github.com/millrace/millrace/internal/conn/datadir"
)

const (
	// serviceRange is the default range of service addresses.
	serviceRange = "10.96.0.0/12"
	// serviceIP is the first address of the range, which belongs to the service
	// "kubernetes".
	serviceIP = "10.96.0.1"
)

// credentialFlags are the flags by which a control plane brings its own
// certificates. If one is set, and etcd is not the embedded one, no certificate of
// the data directory is used.
var credentialFlags = slices.Concat(servingFlags, []string{
	"client-ca-file", "service-account-key-file", "service-account-signing-key-file",
})

// servingFlags name the certificate that clients see. If one is set, neither that
// certificate nor its key comes from the data directory.
var servingFlags = append(program.CertificateFlags[:], "cert-dir")

// makesCredentials reports whether the credentials that no flag names come from the
// data directory. standalone says that etcd is the embedded one.
func (o *Options) makesCredentials(standalone bool) bool {
	return standalone || !o.IsSet(credentialFlags...)
}

// kubeconfigFits reports whether the data directory's kubeconfigs open this server. They
// trust the directory's authority, which has also signed their certificates.
func (o *Options) kubeconfigFits(standalone bool) bool {
	return o.makesCredentials(standalone) && !o.IsSet("client-ca-file") && !o.IsSet(servingFlags...)
}

// checkPort checks that the port is free, unless flags allow to share it.
func (o *Options) checkPort() error {
	if o.Value("permit-port-sharing") == "true" || o.Value("permit-address-sharing") == "true" {
		return nil
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(o.Value("bind-address"), strconv.Itoa(o.Kube.SecurePort())))
	if err != nil {
		return o.Explain(err)
	}
	return listener.Close()
}

// useCredentials makes certificates, keys and kubeconfigs in the data directory. It sets the
// flags that name them, and flags that a control plane with them needs, such as
// --authorization-mode. Flags that the user has set stay as they are.
func (o *Options) useCredentials(dir *datadir.Dir) (datadir.Report, error) {
	hosts := datadir.Hosts{Port: o.Kube.SecurePort(), ServiceIPs: []net.IP{net.ParseIP(serviceIP)}}
	if host := o.IP("bind-address"); host != nil {
		hosts.Host = host.String()
	}
	if advertised := o.IP("advertise-address"); advertised != nil {
		hosts.ExtraHosts = append(hosts.ExtraHosts, advertised.String())
	}
	report, err := dir.EnsureCredentials(hosts)
	if err != nil {
		return report, err
	}
	p := dir.Paths()
	if !o.IsSet(servingFlags...) {
		if err := o.SetDefaults([][2]string{{"tls-cert-file", p.ServingCert}, {"tls-private-key-file", p.ServingKey}}); err != nil {
			return report, err
		}
	}
	return report, o.SetDefaults([][2]string{
		{"client-ca-file", p.CACert},
		{"service-account-key-file", p.ServiceAccountPub},
		{"service-account-signing-key-file", p.ServiceAccountKey},
		{"service-account-issuer", "https://kubernetes.default.svc.cluster.local"},
		{"requestheader-client-ca-file", p.FrontProxyCACert},
		{"requestheader-allowed-names", "front-proxy-client"},
		{"requestheader-extra-headers-prefix", "X-Remote-Extra-"},
		{"requestheader-group-headers", "X-Remote-Group"},
		{"requestheader-username-headers", "X-Remote-User"},
		{"proxy-client-cert-file", p.FrontProxyClientCert},
		{"proxy-client-key-file", p.FrontProxyClientKey},
		{"authorization-mode", "Node,RBAC"},
		{"enable-admission-plugins", "NodeRestriction"},
		{"enable-bootstrap-token-auth", "true"},
		{"allow-privileged", "true"},
		{"service-cluster-ip-range", serviceRange},
	})
}

// setStandaloneDefaults sets the flags of a server with the embedded etcd. By default only this
// machine reaches the server. As long as that is so, it announces no endpoint to pods.
func (o *Options) setStandaloneDefaults() error {
	if err := o.SetDefaults([][2]string{{"bind-address", "127.0.0.1"}, {"server-leases", "false"}}); err != nil {
		return err
	}
	bind := o.IP("bind-address")
	if !bind.IsLoopback() {
		return nil
	}
	return o.SetDefaults([][2]string{
		{"advertise-address", bind.String()},
		{"endpoint-reconciler-type", "none"},
	})
}
