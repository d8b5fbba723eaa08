package serve

import (
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strconv"

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
var servingFlags = []string{"tls-cert-file", "tls-private-key-file", "cert-dir"}

// makesCredentials reports whether the credentials that no flag names come from the
// data directory. standalone says that etcd is the embedded one.
func (o *Options) makesCredentials(standalone bool) bool {
	return standalone || !o.isAnySet(credentialFlags)
}

// kubeconfigFits reports whether the data directory's kubeconfigs open this server.
// They trust its authority, and their certificates are signed by it.
func (o *Options) kubeconfigFits(standalone bool) bool {
	return o.makesCredentials(standalone) && !o.isSet("client-ca-file") && !o.isAnySet(servingFlags)
}

func (o *Options) isAnySet(names []string) bool { return slices.ContainsFunc(names, o.isSet) }

// checkPort checks that the port is free, while nothing has been started or written
// yet.
func (o *Options) checkPort() error {
	if o.value("permit-port-sharing") == "true" || o.value("permit-address-sharing") == "true" {
		return nil
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(o.value("bind-address"), strconv.Itoa(o.Kube.SecurePort())))
	if err != nil {
		return o.explain(err)
	}
	return listener.Close()
}

// setShutdownDefaults has the server end watches when it is asked to stop.
// Kubernetes' default waits a minute for clients to end them, which they never do.
func (o *Options) setShutdownDefaults() error {
	return o.setDefault("shutdown-watch-termination-grace-period", "10s")
}

// validateServing checks the user's serving certificate before anything is started.
// Kubernetes' error about a damaged one names neither the file nor the flag.
func (o *Options) validateServing() error {
	cert, key := o.value(servingFlags[0]), o.value(servingFlags[1])
	if cert == "" && key == "" {
		return nil
	}
	if cert == "" || key == "" {
		return fmt.Errorf("one of --%s and --%s is missing: give both", servingFlags[0], servingFlags[1])
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		return fmt.Errorf("cannot use --%s=%s with --%s=%s (%w): give a certificate and its key in PEM form",
			servingFlags[0], cert, servingFlags[1], key, err)
	}
	return nil
}

// value returns a flag's value as text, or the empty string if there is no such flag.
func (o *Options) value(name string) string {
	if f := o.flags.Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// useCredentials makes certificates, keys and kubeconfigs in the data directory and
// sets the flags that name them, unless the user did.
func (o *Options) useCredentials(dir *datadir.Dir) (datadir.Report, error) {
	host, _ := o.flags.GetIP("bind-address")
	hosts := datadir.Hosts{Port: o.Kube.SecurePort(), ServiceIPs: []net.IP{net.ParseIP(serviceIP)}}
	if host != nil {
		hosts.Host = host.String()
	}
	if advertised, err := o.flags.GetIP("advertise-address"); err == nil && advertised != nil {
		hosts.ExtraHosts = append(hosts.ExtraHosts, advertised.String())
	}
	report, err := dir.EnsureCredentials(hosts)
	if err != nil {
		return report, err
	}
	p := dir.Paths()
	if !o.isAnySet(servingFlags) {
		if err := o.setDefaults([][2]string{{"tls-cert-file", p.ServingCert}, {"tls-private-key-file", p.ServingKey}}); err != nil {
			return report, err
		}
	}
	return report, o.setDefaults([][2]string{
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

// setStandaloneDefaults sets the flags of a server with the embedded etcd. It is
// reachable only from this machine, so it announces no endpoint to pods.
func (o *Options) setStandaloneDefaults() error {
	if err := o.setDefaults([][2]string{{"bind-address", "127.0.0.1"}, {"server-leases", "false"}}); err != nil {
		return err
	}
	bind, err := o.flags.GetIP("bind-address")
	if err != nil {
		return fmt.Errorf("read --bind-address: %w", err)
	}
	if !bind.IsLoopback() {
		return nil
	}
	return o.setDefaults([][2]string{
		{"advertise-address", bind.String()},
		{"endpoint-reconciler-type", "none"},
	})
}

// setDefaults calls setDefault for pairs of a name and a value.
func (o *Options) setDefaults(flags [][2]string) error {
	for _, f := range flags {
		if err := o.setDefault(f[0], f[1]); err != nil {
			return err
		}
	}
	return nil
}

// url returns the server's address for clients on this machine.
func (o *Options) url() string {
	host := "127.0.0.1"
	if bind, err := o.flags.GetIP("bind-address"); err == nil && bind != nil && !bind.IsUnspecified() {
		host = bind.String()
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(o.Kube.SecurePort()))
}
