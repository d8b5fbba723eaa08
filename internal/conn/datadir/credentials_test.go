package datadir_test

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"

	"github.com/millrace/millrace/internal/conn/datadir"
)

func TestCredentialsFirstStart(t *testing.T) {
	d := open(t, datadir.Config{Path: t.TempDir(), Now: at(0)})
	report := ensure(t, d, datadir.Hosts{})
	wantWritten(t, report,
		"ca.key", "ca.crt", "front-proxy-ca.key", "front-proxy-ca.crt",
		"apiserver.key", "apiserver.crt", "front-proxy-client.key", "front-proxy-client.crt",
		"sa.key", "sa.pub", "admin.kubeconfig", "controller-manager.kubeconfig", "scheduler.kubeconfig")
	p := d.Paths()
	for _, file := range []string{p.CAKey, p.FrontProxyCAKey, p.ServingKey, p.FrontProxyClientKey, p.ServiceAccountKey,
		p.AdminKubeconfig, p.ControllerManagerKubeconfig, p.SchedulerKubeconfig} {
		wantMode(t, file, 0o600)
	}
	wantMode(t, p.PKI, 0o700)
	for _, file := range []string{p.CACert, p.FrontProxyCACert} {
		ca := certificate(t, read(t, file))
		if !ca.IsCA || !ca.NotAfter.Equal(epoch().AddDate(0, 0, 3650)) {
			t.Errorf("%s: authority %v until %v", file, ca.IsCA, ca.NotAfter)
		}
	}
	for file := range content(t, p.Root) {
		if filepath.Base(file)[0] == '.' {
			t.Errorf("%s was left over", file)
		}
	}
}

func TestCredentialsSurviveRestarts(t *testing.T) {
	paths := makeFiles(t)
	before := content(t, paths.Root)
	for _, after := range []time.Duration{0, day, 334 * day} {
		report, err := restart(t, paths, after, datadir.Hosts{})
		if err != nil {
			t.Fatal(err)
		}
		wantWritten(t, report)
		wantUnchanged(t, paths.Root, before)
	}
}

func TestServingCertificateNames(t *testing.T) {
	d := open(t, datadir.Config{Path: t.TempDir(), Now: at(0)})
	hosts := datadir.Hosts{
		Host:       "10.1.2.3",
		ServiceIPs: []net.IP{net.ParseIP("10.96.0.1"), net.ParseIP("fd00::1")},
		Hostname:   "Node-1",
		ExtraHosts: []string{"api.example.com", "*.lb.example.com", "192.0.2.7", "localhost"},
	}
	ensure(t, d, hosts)
	cert := certificate(t, read(t, d.Paths().ServingCert))
	names := []string{"localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local", "10.1.2.3", "10.96.0.1", "fd00::1", "node-1", "api.example.com", "a.lb.example.com", "192.0.2.7"}
	for _, name := range names {
		if err := cert.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	if want := len(names); len(cert.DNSNames)+len(cert.IPAddresses) != want {
		t.Errorf("%v and %v are not %d names", cert.DNSNames, cert.IPAddresses, want)
	}
	if !cert.NotAfter.Equal(epoch().AddDate(0, 0, 365)) {
		t.Errorf("valid until %v", cert.NotAfter)
	}
}

func TestServingCertificateNamesMachine(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	cert := certificate(t, read(t, makeFiles(t).ServingCert))
	if err := cert.VerifyHostname(name); err != nil {
		t.Error(err)
	}
}

func TestInvalidHosts(t *testing.T) {
	d := open(t, datadir.Config{Path: t.TempDir()})
	for _, hosts := range []datadir.Hosts{
		{Host: "https://api.example.com"},
		{Port: 70000},
		{Port: -1},
		{ServiceIPs: []net.IP{nil}},
		{ExtraHosts: []string{"api.example.com:6443"}},
		{ExtraHosts: []string{""}},
		{ExtraHosts: []string{"two..dots"}},
	} {
		_, err := d.EnsureCredentials(hosts)
		wantError(t, err, datadir.ErrInvalidHosts, "give")
	}
	if files := content(t, d.Paths().Root); len(files) > 0 {
		t.Errorf("files were made: %v", files)
	}
}

func TestNewNameReissuesServingCertificate(t *testing.T) {
	paths := makeFiles(t)
	key := read(t, paths.ServingKey)
	for _, hosts := range []datadir.Hosts{
		{ExtraHosts: []string{"api.example.com"}},
		{ExtraHosts: []string{"api.example.com"}, ServiceIPs: []net.IP{net.IPv4(10, 0, 0, 1)}},
	} {
		report, err := restart(t, paths, 0, hosts)
		if err != nil {
			t.Fatal(err)
		}
		wantWritten(t, report, "apiserver.crt")
		keyPair(t, read(t, paths.ServingCert), read(t, paths.ServingKey))
		wantEqual(t, "key", read(t, paths.ServingKey), key)
		report, err = restart(t, paths, 0, hosts)
		if err != nil {
			t.Fatal(err)
		}
		wantWritten(t, report)
	}
	report, err := restart(t, paths, 0, datadir.Hosts{})
	if err != nil {
		t.Fatal(err)
	}
	wantWritten(t, report) // a certificate with more names is kept
}

func TestNearExpiryReissuesLeafs(t *testing.T) {
	for _, after := range []time.Duration{336 * day, 400 * day} {
		paths := makeFiles(t)
		before := content(t, paths.Root)
		report, err := restart(t, paths, after, datadir.Hosts{})
		if err != nil {
			t.Fatal(err)
		}
		wantWritten(t, report, "apiserver.crt", "front-proxy-client.crt", "admin.kubeconfig", "controller-manager.kubeconfig", "scheduler.kubeconfig")
		for _, file := range []string{paths.CACert, paths.CAKey, paths.ServingKey, paths.ServiceAccountKey} {
			wantEqual(t, file, read(t, file), []byte(before[file]))
		}
		end := epoch().Add(after + 365*day)
		if got := certificate(t, read(t, paths.ServingCert)).NotAfter; !got.Equal(end) {
			t.Errorf("serving certificate ends %v, want %v", got, end)
		}
		admin := loadAccount(t, paths.AdminKubeconfig)
		keyPair(t, admin.cert, admin.key)
		if got := certificate(t, admin.cert).NotAfter; !got.Equal(end) {
			t.Errorf("admin's certificate ends %v, want %v", got, end)
		}
	}
}

func TestLeafsEndWithTheirAuthority(t *testing.T) {
	paths := makeFiles(t)
	late := 3640 * day
	report, err := restart(t, paths, late, datadir.Hosts{})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Warnings) != 2 {
		t.Errorf("warnings %q, want one per authority", report.Warnings)
	}
	ca, leaf := certificate(t, read(t, paths.CACert)), certificate(t, read(t, paths.ServingCert))
	if !leaf.NotAfter.Equal(ca.NotAfter) {
		t.Errorf("leaf ends %v, authority %v", leaf.NotAfter, ca.NotAfter)
	}
	report, err = restart(t, paths, late, datadir.Hosts{})
	if err != nil {
		t.Fatal(err)
	}
	wantWritten(t, report)
}

func TestKubeconfigs(t *testing.T) {
	paths := makeFiles(t)
	for _, test := range []struct {
		file, name string
		groups     []string
	}{
		{paths.AdminKubeconfig, "millrace-admin", []string{"system:masters"}},
		{paths.ControllerManagerKubeconfig, "system:kube-controller-manager", nil},
		{paths.SchedulerKubeconfig, "system:kube-scheduler", nil},
	} {
		a := loadAccount(t, test.file)
		cert := certificate(t, a.cert)
		if cert.Subject.CommonName != test.name || !slices.Equal(cert.Subject.Organization, test.groups) {
			t.Errorf("%s is for %v", test.file, cert.Subject)
		}
		if a.server != "https://127.0.0.1:6443" {
			t.Errorf("%s leads to %s", test.file, a.server)
		}
		wantEqual(t, "authority", a.ca, read(t, paths.CACert))
		keyPair(t, a.cert, a.key)
	}
	cert := certificate(t, read(t, paths.FrontProxyClientCert))
	if cert.Subject.CommonName != "front-proxy-client" {
		t.Errorf("front proxy's certificate is for %v", cert.Subject)
	}
	options := x509.VerifyOptions{Roots: pool(t, paths.FrontProxyCACert), CurrentTime: epoch(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := cert.Verify(options); err != nil {
		t.Error(err)
	}
}

func TestKubeconfigsFollowTheServer(t *testing.T) {
	paths := makeFiles(t)
	for _, test := range []struct {
		hosts  datadir.Hosts
		server string
	}{
		{datadir.Hosts{Port: 7443}, "https://127.0.0.1:7443"},
		{datadir.Hosts{Host: "0.0.0.0"}, "https://127.0.0.1:6443"},
		{datadir.Hosts{Host: "::"}, "https://[::1]:6443"},
		{datadir.Hosts{Host: "api.example.com", Port: 443}, "https://api.example.com:443"},
	} {
		before := loadAccount(t, paths.AdminKubeconfig)
		report, err := restart(t, paths, 0, test.hosts)
		if err != nil {
			t.Fatal(err)
		}
		if got := writtenNames(report); !slices.Contains(got, "admin.kubeconfig") || !slices.Contains(got, "scheduler.kubeconfig") {
			t.Errorf("written %v", got)
		}
		after := loadAccount(t, paths.AdminKubeconfig)
		if after.server != test.server {
			t.Errorf("kubeconfig leads to %s, want %s", after.server, test.server)
		}
		wantEqual(t, "certificate", after.cert, before.cert)
	}
}

func TestKubeconfigKeepsOwnersEntries(t *testing.T) {
	paths := makeFiles(t)
	config := loadConfig(t, paths.AdminKubeconfig)
	config.Clusters["other"] = &clientcmdapi.Cluster{Server: "https://other.example.com"}
	config.Contexts["other"] = &clientcmdapi.Context{Cluster: "other"}
	config.CurrentContext = "other"
	if err := clientcmd.WriteToFile(*config, paths.AdminKubeconfig); err != nil {
		t.Fatal(err)
	}
	if _, err := restart(t, paths, 0, datadir.Hosts{Port: 7443}); err != nil {
		t.Fatal(err)
	}
	config = loadConfig(t, paths.AdminKubeconfig)
	if config.CurrentContext != "other" || config.Clusters["other"] == nil {
		t.Error("the owner's entries are gone")
	}
	if got := config.Clusters["millrace"].Server; got != "https://127.0.0.1:7443" {
		t.Errorf("kubeconfig leads to %s", got)
	}
}

func TestServiceAccountKeys(t *testing.T) {
	paths := makeFiles(t)
	key, err := keyutil.PrivateKeyFromFile(paths.ServiceAccountKey)
	if err != nil {
		t.Fatal(err)
	}
	publics, err := keyutil.PublicKeysFromFile(paths.ServiceAccountPub)
	if err != nil {
		t.Fatal(err)
	}
	if !key.(*ecdsa.PrivateKey).PublicKey.Equal(publics[0]) {
		t.Error("public and private key differ")
	}
	public := read(t, paths.ServiceAccountPub)
	remove(t, paths.ServiceAccountPub)
	report, err := restart(t, paths, 0, datadir.Hosts{})
	if err != nil {
		t.Fatal(err)
	}
	wantWritten(t, report, "sa.pub")
	wantEqual(t, "public key", read(t, paths.ServiceAccountPub), public)
	// An older key may come first. Its tokens stay valid.
	writeFile(t, paths.ServiceAccountPub, string(read(t, makeFiles(t).ServiceAccountPub))+string(public), 0o644)
	report, err = restart(t, paths, 0, datadir.Hosts{})
	if err != nil {
		t.Fatal(err)
	}
	wantWritten(t, report)
}

// TestHandshake checks that server and client accept each other's certificates.
func TestHandshake(t *testing.T) {
	paths := makeFiles(t)
	admin := loadAccount(t, paths.AdminKubeconfig)
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	server := tls.Server(near, &tls.Config{
		Certificates: []tls.Certificate{keyPair(t, read(t, paths.ServingCert), read(t, paths.ServingKey))},
		ClientCAs:    pool(t, paths.CACert),
		ClientAuth:   tls.RequireAndVerifyClientCert,
		Time:         at(day),
	})
	client := tls.Client(far, &tls.Config{
		Certificates: []tls.Certificate{keyPair(t, admin.cert, admin.key)},
		RootCAs:      pool(t, paths.CACert),
		ServerName:   "127.0.0.1",
		Time:         at(day),
	})
	handshake := make(chan error, 1)
	go func() { handshake <- server.Handshake() }()
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	// The server blocks in its last message, the session tickets, until it is read.
	go client.Read(make([]byte, 1))
	if err := <-handshake; err != nil {
		t.Fatal(err)
	}
	if got := server.ConnectionState().PeerCertificates[0].Subject.CommonName; got != "millrace-admin" {
		t.Errorf("client is %s", got)
	}
}
