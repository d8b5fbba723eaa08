package etcdserver_test

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/feed/etcdserver"
	"github.com/millrace/millrace/internal/feed/etcdserver/etcdtest"
)

func TestReopens(t *testing.T) {
	t.Parallel()
	cfg := etcdtest.Config(t)
	e := etcdtest.Open(t, cfg)
	put, err := e.Client().Client.Put(t.Context(), "/registry/a", "1")
	if err != nil {
		t.Fatal(err)
	}
	before := put.Header.Revision
	e.Close()

	// A killed server does not remove its sockets.
	stale := filepath.Join(cfg.SocketDir, "client.sock")
	if err := os.WriteFile(stale, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e = etcdtest.Open(t, cfg)
	defer e.Close()
	resp, err := e.Client().Client.Get(t.Context(), "/registry/a")
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != "1" {
		t.Fatalf("etcd holds %v after it was reopened, want the object", resp.Kvs)
	}
	if resp.Header.Revision != before || before < 2 {
		t.Errorf("revision is %d after it was reopened, want %d", resp.Header.Revision, before)
	}
}

func TestRefusesSecondServer(t *testing.T) {
	t.Parallel()
	cfg := etcdtest.Config(t)
	e := etcdtest.Open(t, cfg)
	defer e.Close()
	second, err := etcdserver.Open(t.Context(), cfg)
	if err == nil {
		second.Close()
		t.Fatal("two servers have one data directory")
	}
	if !errors.Is(err, etcdserver.ErrInUse) {
		t.Errorf("second server fails with %v, want ErrInUse", err)
	}
	if _, err := os.Stat(filepath.Join(cfg.SocketDir, "client.sock")); err != nil {
		t.Errorf("the second server took the first one's socket: %v", err)
	}
}

// TestIsPrivate examines the listening sockets of this process. It does not run
// in parallel with other tests, which listen too.
func TestIsPrivate(t *testing.T) {
	if _, err := os.Stat("/proc/net/unix"); err != nil {
		t.Skip("sockets are listed in /proc")
	}
	cfg := etcdtest.Config(t)
	e := etcdtest.Open(t, cfg)
	defer e.Close()
	info, err := os.Stat(cfg.SocketDir)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o700 {
		t.Errorf("the directory of the sockets has mode %o, want 700", mode)
	}
	if !strings.HasPrefix(e.Endpoint(), "unix://"+cfg.SocketDir+"/") {
		t.Errorf("endpoint is %s, want one in %s", e.Endpoint(), cfg.SocketDir)
	}
	own := ownSockets(t)
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		for _, fields := range lines(t, file) {
			// State 0A is listening; field 9 is the inode.
			if len(fields) > 9 && fields[3] == "0A" && own[fields[9]] {
				t.Errorf("this process listens on %s (%s)", fields[1], file)
			}
		}
	}
	listening := 0
	for _, fields := range lines(t, "/proc/net/unix") {
		// Flag 00010000 is listening; field 6 is the inode.
		if len(fields) < 7 || fields[3] != "00010000" || !own[fields[6]] {
			continue
		}
		listening++
		if len(fields) < 8 || filepath.Dir(fields[7]) != cfg.SocketDir {
			t.Errorf("etcd listens outside its directory: %v", fields[7:])
		}
	}
	if listening == 0 {
		t.Error("found no listening socket; the test is blind")
	}
}

// ownSockets returns the inodes of this process's sockets.
func ownSockets(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{}
	for _, file := range files {
		target, err := os.Readlink(file)
		if err != nil {
			continue
		}
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return own
}

func lines(t *testing.T, file string) [][]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	var found [][]string
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		found = append(found, strings.Fields(scanner.Text()))
	}
	return found
}
