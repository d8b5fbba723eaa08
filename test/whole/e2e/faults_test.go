package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/support/harness"
)

// isError reports whether a line is the error of one of our programs.
func isError(line string) bool {
	program, _, _ := strings.Cut(line, ": ")
	return slices.Contains([]string{"millrace", "millrace-tools", "millrace-lab"}, program)
}

// wantFailure runs a command that must fail, and checks its last line: an error that
// contains some parts.
func wantFailure(t *testing.T, args []string, says ...string) {
	t.Helper()
	output, code := harness.Run(t, args...)
	line := lastLine(output)
	if code == 0 || !isError(line) {
		t.Errorf("%v: code %d, last line %q; want an error that begins with the program's name", args, code, line)
	}
	if strings.Contains(output, "goroutine ") {
		t.Errorf("%v: printed a stack:\n%s", args, output)
	}
	for _, part := range says {
		if !strings.Contains(line, part) {
			t.Errorf("%v: last line %q does not say %q", args, line, part)
		}
	}
}

// TestCommandLineFaults runs commands that fail without a server.
func TestCommandLineFaults(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	none := "--data-dir=" + filepath.Join(t.TempDir(), "none")
	for _, test := range []struct {
		args string
		says []string
	}{
		{"serve --nope", []string{"unknown flag: --nope", "see millrace serve --help"}},
		{"serve --secure-port=abc", []string{"--secure-port", "see millrace serve --help"}},
		{"serve --secure-port=0", []string{"--secure-port"}},
		{"serve --read-path=x", []string{"--read-path=x is unknown", "millrace", "kubernetes"}},
		{"serve --wire-cache-size=-1", []string{"--wire-cache-size=-1", "give 0"}},
		{"serve --tls-cert-file=a.crt", []string{"--tls-private-key-file", "give both"}},
		{"serve extra", []string{"extra"}},
		{"nonsense", []string{"nonsense"}},
		{"kubectl get ns", []string{"start `millrace serve` first"}},
		{"scheduler", []string{"start `millrace serve` first"}},
		{"controller-manager", []string{"start `millrace serve` first"}},
		{"fill --pods=1", []string{"start `millrace serve` first"}},
	} {
		args := strings.Fields(test.args)
		if args[0] != "nonsense" {
			args = append(args, none)
		}
		wantFailure(t, args, test.says...)
	}
	if _, err := os.Stat(strings.TrimPrefix(none, "--data-dir=")); err == nil {
		t.Error("a command that failed made a data directory")
	}
}

// makeDataDir returns the data directory of a server that ran and has ended. It holds a
// config map.
func makeDataDir(t *testing.T) string {
	t.Helper()
	s := harness.Start(t, filepath.Join(harness.ShortTempDir(t), "d"))
	create(t, clientset(t, s), configMap("before"))
	if err := s.Terminate(); err != nil {
		t.Fatalf("terminate: %v", err)
	}
	return s.DataDir
}

// TestStartFaults checks that a server that cannot start says what to do, and leaves the
// data directory as it was.
func TestStartFaults(t *testing.T) {
	t.Parallel()
	dir := makeDataDir(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	defer listener.Close()
	taken := fmt.Sprint(listener.Addr().(*net.TCPAddr).Port)
	file := writeFile(t, filepath.Join(t.TempDir(), "file"), "")
	pem, err := os.ReadFile(filepath.Join(dir, "pki", "apiserver.crt"))
	if err != nil {
		t.Fatalf("read certificate: %v", err)
	}
	cut := writeFile(t, filepath.Join(t.TempDir(), "cut.crt"), string(pem[:len(pem)/2]))
	key := filepath.Join(dir, "pki", "apiserver.key")
	free := func() string { return fmt.Sprintf("--secure-port=%d", harness.FreePort(t)) }

	before := hash(t, dir)
	for _, test := range []struct {
		args []string
		says []string
	}{
		{[]string{"--secure-port=" + taken, "--data-dir=" + dir}, []string{"already in use", "--secure-port"}},
		{[]string{free(), "--data-dir=" + file}, []string{"not a directory", "--data-dir"}},
		{[]string{free(), "--data-dir=/proc/millrace"}, []string{"/proc/millrace", "--data-dir"}},
		{[]string{free(), "--data-dir=" + dir, "--tls-cert-file=" + t.TempDir(), "--tls-private-key-file=" + key}, []string{"--tls-cert-file", "is a directory"}},
		{[]string{free(), "--data-dir=" + dir, "--tls-cert-file=" + cut, "--tls-private-key-file=" + key}, []string{"--tls-cert-file", "PEM"}},
		{[]string{free(), "--data-dir=" + dir, "--bind-address=192.0.2.1"}, []string{"--bind-address"}},
	} {
		wantFailure(t, append([]string{"serve"}, test.args...), test.says...)
	}
	if hash(t, dir) != before {
		t.Error("a start that failed changed the data directory")
	}
	pki := hash(t, filepath.Join(dir, "pki"))
	wantFailure(t, []string{"serve", free(), "--data-dir=" + dir, "--client-ca-file=" + cut}, "check --client-ca-file")
	wantFailure(t, []string{"serve", free(), "--data-dir=" + dir, "--encryption-provider-config=" + cut + ".none"}, "check --encryption-provider-config")
	if hash(t, filepath.Join(dir, "pki")) != pki {
		t.Error("a start that failed changed certificates or keys")
	}
	s := harness.Start(t, dir)
	if versions(t, clientset(t, s))["default/before"] == "" {
		t.Error("an object is lost after starts that failed")
	}
	pkiInUse := hash(t, filepath.Join(dir, "pki"))
	wantFailure(t, []string{"serve", free(), "--data-dir=" + dir}, fmt.Sprintf("in use by process %d", s.PID()), "--data-dir")
	if hash(t, filepath.Join(dir, "pki")) != pkiInUse || s.Ready() != nil {
		t.Error("a second server disturbed the first")
	}
}

// TestUnreachableEtcd checks the error of both read paths when etcd does not answer. It
// takes as long as a server waits for etcd.
func TestUnreachableEtcd(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"millrace", "kubernetes"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			wantFailure(t, []string{
				"serve", "--data-dir=" + harness.ShortTempDir(t), fmt.Sprintf("--secure-port=%d", harness.FreePort(t)),
				"--etcd-servers=http://127.0.0.1:1", "--read-path=" + path,
			}, "check that etcd runs", "--etcd-servers")
		})
	}
}

// TestDamagedDataDir damages one file of a data directory at a time. The server names
// the file and the remedy, and changes nothing.
func TestDamagedDataDir(t *testing.T) {
	t.Parallel()
	dir := makeDataDir(t)
	other := makeDataDir(t)
	const database, log = "etcd/data/member/snap/db", "etcd/data/member/wal"
	truncated := func(size int64) func(*testing.T, string) {
		return func(t *testing.T, file string) { check(t, os.Truncate(file, size)) }
	}
	garbled := func(at int64) func(*testing.T, string) {
		return func(t *testing.T, file string) { garble(t, file, at) }
	}
	for name, test := range map[string]struct {
		file   string
		damage func(t *testing.T, file string)
		says   []string
	}{
		"database cut":          {database, truncated(20000), []string{"snap/db", "restore", "backup"}},
		"database cut later":    {database, truncated(80000), []string{"snap/db", "restore", "backup"}},
		"database garbled":      {database, garbled(0), []string{"snap/db", "restore", "backup"}},
		"database pages":        {database, garbled(8192), []string{"snap/db", "restore", "backup"}},
		"log cut":               {log + "/0000000000000000-0000000000000000.wal", truncated(100), []string{"wal", "restore", "backup"}},
		"log garbled":           {log + "/0000000000000000-0000000000000000.wal", garbled(20000), []string{"wal", "restore", "backup"}},
		"log lost":              {log, func(t *testing.T, file string) { check(t, os.RemoveAll(file)) }, []string{"wal", "restore", "backup"}},
		"certificate cut":       {"pki/apiserver.crt", truncated(100), []string{"pki/apiserver.crt", "remove"}},
		"certificate foreign":   {"pki/apiserver.crt", replaceWith(filepath.Join(other, "pki/apiserver.crt")), []string{"apiserver.key does not belong to", "apiserver.crt", "restore"}},
		"authority foreign":     {"pki/ca.crt", replaceWith(filepath.Join(other, "pki/ca.crt")), []string{"ca.key does not belong to", "ca.crt", "restore"}},
		"certificate directory": {"pki/apiserver.crt", func(t *testing.T, file string) { check(t, os.Remove(file)); check(t, os.Mkdir(file, 0o700)) }, []string{"cannot read", "apiserver.crt"}},
		"kubeconfig cut":        {"admin.kubeconfig", truncated(100), []string{"admin.kubeconfig", "remove"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			damaged := copyDir(t, dir)
			test.damage(t, filepath.Join(damaged, test.file))
			before := hash(t, damaged)
			wantFailure(t, []string{"serve", "--data-dir=" + damaged, fmt.Sprintf("--secure-port=%d", harness.FreePort(t))}, test.says...)
			if hash(t, damaged) != before {
				t.Error("the start that failed changed the data directory")
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// garble overwrites a part of a file, from an offset on.
func garble(t *testing.T, file string, at int64) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	check(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte(strings.Repeat("millrace", 12<<10)), at)
	check(t, err)
}

// replaceWith returns a function that replaces the content of a file by that of another.
func replaceWith(by string) func(*testing.T, string) {
	return func(t *testing.T, file string) {
		data, err := os.ReadFile(by)
		check(t, err)
		check(t, os.WriteFile(file, data, 0o600))
	}
}
