package e2e

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/support/harness"
)

// TestCredentialsStay restarts a server. Certificates, keys and kubeconfigs are those of
// the first start.
func TestCredentialsStay(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, filepath.Join(harness.ShortTempDir(t), "d"))
	content := func() map[string]string {
		files := map[string]string{}
		pki, err := filepath.Glob(filepath.Join(s.DataDir, "pki", "*"))
		check(t, err)
		configs, err := filepath.Glob(filepath.Join(s.DataDir, "*.kubeconfig"))
		check(t, err)
		for _, file := range append(pki, configs...) {
			data, err := os.ReadFile(file)
			check(t, err)
			files[file] = string(data)
		}
		return files
	}
	before := content()
	check(t, s.Terminate())
	s = s.Restart()
	after := content()
	if len(before) < 10 || len(before) != len(after) {
		t.Errorf("%d files before, %d after the restart", len(before), len(after))
	}
	for file, data := range before {
		if after[file] != data {
			t.Errorf("%s changed with the restart", file)
		}
	}
	wantPrivate(t, s)
}

// wantPrivate checks that a server listens only on its port and on sockets in its data
// directory, and that the files there are private.
func wantPrivate(t *testing.T, s *harness.Server) {
	t.Helper()
	for file, want := range map[string]fs.FileMode{"": 0o700, "etcd": 0o700, "pki": 0o700, "admin.kubeconfig": 0o600, "pki/ca.key": 0o600} {
		info, err := os.Stat(filepath.Join(s.DataDir, file))
		check(t, err)
		if info.Mode().Perm() != want {
			t.Errorf("%q in the data directory has mode %v, want %v", file, info.Mode().Perm(), want)
		}
	}
	own := sockets(t, s.PID())
	var listening []string
	for _, file := range []string{"tcp", "tcp6", "udp", "udp6"} {
		for _, fields := range table(t, s.PID(), file) {
			// Local address, remote address, state (0A listens), …, inode.
			if own[fields[9]] && (fields[3] == "0A" || strings.HasPrefix(file, "udp")) {
				listening = append(listening, fields[1])
			}
		}
	}
	port := s.URL[strings.LastIndex(s.URL, ":")+1:]
	if want := "0100007F:" + hexPort(t, port); len(listening) != 1 || listening[0] != want {
		t.Errorf("listens on %v, want %s alone", listening, want)
	}
	for _, fields := range table(t, s.PID(), "unix") {
		// The path is the last field. Sockets without a path are not bound.
		if !own[fields[6]] || len(fields) < 8 {
			continue
		}
		if path := fields[7]; strings.HasPrefix(path, "@") || !strings.HasPrefix(path, s.DataDir) {
			t.Errorf("has a socket at %s, outside of the data directory", path)
		}
	}
}

// hexPort returns a port as /proc/net writes it.
func hexPort(t *testing.T, port string) string {
	t.Helper()
	var number int
	_, err := fmt.Sscan(port, &number)
	check(t, err)
	return fmt.Sprintf("%04X", number)
}

// sockets returns the inodes of a process's sockets.
func sockets(t *testing.T, pid int) map[string]bool {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	check(t, err)
	found := map[string]bool{}
	for _, link := range links {
		target, err := os.Readlink(link)
		if inode, ok := strings.CutPrefix(target, "socket:["); err == nil && ok {
			found[strings.TrimSuffix(inode, "]")] = true
		}
	}
	if len(found) == 0 {
		t.Fatal("found no sockets of the server")
	}
	return found
}

// table returns the fields of the rows in a file of /proc/PID/net.
func table(t *testing.T, pid int, name string) [][]string {
	t.Helper()
	file, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, name))
	check(t, err)
	defer file.Close()
	var rows [][]string
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		if fields := strings.Fields(scanner.Text()); strings.HasSuffix(fields[0], ":") {
			rows = append(rows, fields)
		}
	}
	check(t, scanner.Err())
	return rows
}
