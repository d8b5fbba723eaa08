package server

import (
	"fmt"
	"net"
	"strconv"

	"github.com/millrace/millrace/internal/datadir"
)

// serviceRange is the default range of service addresses, and its first address,
// which the service "kubernetes" gets.
const (
	serviceRange = "10.96.0.0/12"
	serviceIP    = "10.96.0.1"
)

// credentialFlags are those with which a control plane brings its own
// certificates. Without any of them the data directory's are used.
var credentialFlags = []string{
	"tls-cert-file", "tls-private-key-file", "cert-dir", "client-ca-file",
	"service-account-key-file", "service-account-signing-key-file",
}

func (o *Options) ownCredentials() bool {
	for _, name := range credentialFlags {
		if o.given(name) {
			return false
		}
	}
	return true
}

// useCredentials makes certificates, keys and kubeconfigs in the data directory
// and sets the flags that lead to them.
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
	return report, o.fallbacks([][2]string{
		{"tls-cert-file", p.ServingCert},
		{"tls-private-key-file", p.ServingKey},
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

// aloneDefaults are for a server with an etcd of its own: it is reachable from
// this machine only, so it announces no endpoint to pods.
func (o *Options) aloneDefaults() error {
	if err := o.fallback("bind-address", "127.0.0.1"); err != nil {
		return err
	}
	bind, err := o.flags.GetIP("bind-address")
	if err != nil {
		return fmt.Errorf("read --bind-address: %w", err)
	}
	if !bind.IsLoopback() {
		return nil
	}
	return o.fallbacks([][2]string{
		{"advertise-address", bind.String()},
		{"endpoint-reconciler-type", "none"},
	})
}

func (o *Options) fallbacks(flags [][2]string) error {
	for _, f := range flags {
		if err := o.fallback(f[0], f[1]); err != nil {
			return err
		}
	}
	return nil
}

// url is where this machine's clients reach the server.
func (o *Options) url() string {
	host := "127.0.0.1"
	if bind, err := o.flags.GetIP("bind-address"); err == nil && bind != nil && !bind.IsUnspecified() {
		host = bind.String()
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(o.Kube.SecurePort()))
}
