package datadir_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/internal/conn/datadir"
)

const day = 24 * time.Hour

// epoch is the time at which the tests make their directories.
func epoch() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }

// at returns a clock that stands still at a time after epoch.
func at(after time.Duration) func() time.Time {
	return func() time.Time { return epoch().Add(after) }
}

func open(t *testing.T, cfg datadir.Config) *datadir.Dir {
	t.Helper()
	d, err := datadir.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func ensure(t *testing.T, d *datadir.Dir, hosts datadir.Hosts) datadir.Report {
	t.Helper()
	report, err := d.EnsureCredentials(hosts)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// makeFiles makes a directory with all credentials at epoch, and closes it.
func makeFiles(t *testing.T) datadir.Paths {
	t.Helper()
	d := open(t, datadir.Config{Path: t.TempDir(), Now: at(0)})
	ensure(t, d, datadir.Hosts{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return d.Paths()
}

// restart ensures the credentials of an existing directory some time after epoch.
func restart(t *testing.T, paths datadir.Paths, after time.Duration, hosts datadir.Hosts) (datadir.Report, error) {
	t.Helper()
	d := open(t, datadir.Config{Path: paths.Root, Now: at(after)})
	defer d.Close()
	return d.EnsureCredentials(hosts)
}

// writtenNames lists the base names of the files that were written.
func writtenNames(report datadir.Report) []string {
	var names []string
	for _, change := range report.Written {
		names = append(names, filepath.Base(change.File))
	}
	return names
}

func wantWritten(t *testing.T, report datadir.Report, want ...string) {
	t.Helper()
	if got := writtenNames(report); !slices.Equal(got, want) {
		t.Errorf("written %v, want %v", got, want)
	}
}

// wantError checks that an error is of a kind, is one line, and contains some parts.
func wantError(t *testing.T, err, kind error, parts ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got error %v, want kind %q", err, kind)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error has several lines: %s", err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error lacks %q: %s", part, err)
		}
	}
}

func wantMode(t *testing.T, file string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != want {
		t.Errorf("%s has mode %o, want %o", file, got, want)
	}
}

func writeMode(t *testing.T, file string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, file, data string, mode fs.FileMode) {
	t.Helper()
	if err := os.WriteFile(file, []byte(data), mode); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	writeFile(t, to, string(read(t, from)), 0o600)
}

func remove(t *testing.T, files ...string) {
	t.Helper()
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func sameFile(t *testing.T, a, b string) bool {
	t.Helper()
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	return os.SameFile(infoA, infoB)
}

// content reads all regular files below root except the lock.
func content(t *testing.T, root string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || entry.Name() == "lock" {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func wantUnchanged(t *testing.T, root string, before map[string]string) {
	t.Helper()
	after := content(t, root)
	if !maps.Equal(before, after) {
		t.Errorf("files changed: %v, before %v", slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
	}
}

func certificate(t *testing.T, data []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatalf("no PEM in %q", data)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func pool(t *testing.T, file string) *x509.CertPool {
	t.Helper()
	result := x509.NewCertPool()
	if !result.AppendCertsFromPEM(read(t, file)) {
		t.Fatalf("no certificate in %s", file)
	}
	return result
}

func keyPair(t *testing.T, certPEM, keyPEM []byte) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// account has the server and the credentials of a kubeconfig's current context.
type account struct {
	server         string
	ca, cert, key  []byte
	currentContext string
}

func loadAccount(t *testing.T, file string) account {
	t.Helper()
	config := loadConfig(t, file)
	current := config.Contexts[config.CurrentContext]
	if current == nil {
		t.Fatalf("%s has no current context", file)
	}
	cluster, user := config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo]
	return account{
		server: cluster.Server, ca: cluster.CertificateAuthorityData,
		cert: user.ClientCertificateData, key: user.ClientKeyData,
		currentContext: config.CurrentContext,
	}
}

func loadConfig(t *testing.T, file string) *clientcmdapi.Config {
	t.Helper()
	config, err := clientcmd.Load(read(t, file))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func wantEqual(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs", what)
	}
}
