package datadir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/conn/datadir"
)

func TestOpenCreatesPrivateDirectory(t *testing.T) {
	root := filepath.Join(t.TempDir(), "some", "where")
	d := open(t, datadir.Config{Path: root})
	wantMode(t, root, 0o700)
	wantMode(t, d.Paths().Lock, 0o600)
	if d.Paths().Root != root {
		t.Errorf("root is %s, want %s", d.Paths().Root, root)
	}
}

func TestOpenDefaultPath(t *testing.T) {
	work := t.TempDir()
	t.Chdir(work)
	d := open(t, datadir.Config{})
	if want := filepath.Join(work, "millrace-data"); !sameFile(t, d.Paths().Root, want) {
		t.Errorf("root is %s, want %s", d.Paths().Root, want)
	}
	if !filepath.IsAbs(d.Paths().AdminKubeconfig) {
		t.Errorf("%s is not absolute", d.Paths().AdminKubeconfig)
	}
}

func TestOpenTightensOwnDirectory(t *testing.T) {
	for _, content := range []string{"", "lost+found", "lock"} {
		root := t.TempDir()
		if content != "" {
			writeFile(t, filepath.Join(root, content), "", 0o600)
		}
		writeMode(t, root, 0o755)
		open(t, datadir.Config{Path: root})
		wantMode(t, root, 0o700)
	}
}

func TestOpenLeavesSharedDirectoryAlone(t *testing.T) {
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "thesis.txt"), "words", 0o644)
	writeMode(t, root, 0o755)
	_, err := datadir.Open(datadir.Config{Path: root})
	wantError(t, err, datadir.ErrUnusable, root, "--data-dir", "chmod 700")
	wantMode(t, root, 0o755)
	if _, err := os.Stat(filepath.Join(root, "lock")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("lock file was made: %v", err)
	}
}

func TestOpenRefusesFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, "content", 0o600)
	_, err := datadir.Open(datadir.Config{Path: file})
	wantError(t, err, datadir.ErrUnusable, file, "is not a directory", "--data-dir")
	_, err = datadir.Open(datadir.Config{Path: filepath.Join(file, "below")})
	wantError(t, err, datadir.ErrUnusable, file, "cannot create", "--data-dir")
	if data, _ := os.ReadFile(file); string(data) != "content" {
		t.Errorf("file now holds %q", data)
	}
}

func TestOpenRefusesUnwritableDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("permissions do not bind this user")
	}
	root := t.TempDir()
	writeMode(t, root, 0o500)
	_, err := datadir.Open(datadir.Config{Path: root})
	wantError(t, err, datadir.ErrUnusable, root, "is not writable", "--data-dir")
}

func TestLockExcludes(t *testing.T) {
	root := t.TempDir()
	first := open(t, datadir.Config{Path: root})
	_, err := datadir.Open(datadir.Config{Path: root})
	wantError(t, err, datadir.ErrInUse)
	want := fmt.Sprintf("data directory %s is in use by process %d: stop it or choose another with --data-dir", root, os.Getpid())
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	if data, _ := os.ReadFile(first.Paths().Lock); string(data) != fmt.Sprintln(os.Getpid()) {
		t.Errorf("lock file holds %q", data)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, datadir.Config{Path: root})
}

func TestStaleHolderDoesNotLock(t *testing.T) {
	root := t.TempDir()
	lock := filepath.Join(root, "lock")
	writeFile(t, lock, "1234567890\nand more", 0o600)
	open(t, datadir.Config{Path: root})
	if data, _ := os.ReadFile(lock); string(data) != fmt.Sprintln(os.Getpid()) {
		t.Errorf("lock file holds %q", data)
	}
}

func TestCloseTwiceAndUseAfter(t *testing.T) {
	d := open(t, datadir.Config{Path: t.TempDir()})
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.EnsureCredentials(datadir.Hosts{}); !errors.Is(err, datadir.ErrClosed) {
		t.Errorf("EnsureCredentials after Close: %v", err)
	}
	if _, err := d.EtcdSocketDir(); !errors.Is(err, datadir.ErrClosed) {
		t.Errorf("EtcdSocketDir after Close: %v", err)
	}
}

func TestLookup(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	_, err := datadir.Lookup(root)
	wantError(t, err, datadir.ErrNotFound)
	want := "no millrace data directory at " + root + ": start `millrace serve` first or give --kubeconfig"
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	d := open(t, datadir.Config{Path: root})
	_, err = datadir.Lookup(root)
	wantError(t, err, datadir.ErrNotFound, want)
	ensure(t, d, datadir.Hosts{})
	for range 2 { // first while the lock is held, then afterwards
		paths, err := datadir.Lookup(root)
		if err != nil || paths != d.Paths() {
			t.Errorf("got %+v, %v", paths, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	remove(t, d.Paths().SchedulerKubeconfig)
	_, err = datadir.Lookup(root)
	wantError(t, err, datadir.ErrNotFound, root, "scheduler.kubeconfig", "millrace serve", "--kubeconfig")
	_, err = datadir.Lookup(d.Paths().AdminKubeconfig)
	wantError(t, err, datadir.ErrNotFound, "is not a directory", "--kubeconfig")
}

func TestLookupDeniedDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("permissions do not bind this user")
	}
	root := t.TempDir()
	d := open(t, datadir.Config{Path: root})
	ensure(t, d, datadir.Hosts{})
	writeMode(t, root, 0o000)
	defer writeMode(t, root, 0o700)
	_, err := datadir.Lookup(root)
	wantError(t, err, datadir.ErrNotFound, root, "not open to this user", "--kubeconfig")
}

func TestEtcdSocketDir(t *testing.T) {
	short, err := os.MkdirTemp("", "mr")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(short)
	t.Run("inside", func(t *testing.T) {
		d := open(t, datadir.Config{Path: filepath.Join(short, "d")})
		dir := socketDir(t, d)
		if dir != d.Paths().Etcd {
			t.Errorf("sockets go to %s, want %s", dir, d.Paths().Etcd)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		wantMode(t, dir, 0o700)
	})
	long := strings.Repeat("long", 25)
	t.Run("outside", func(t *testing.T) {
		d := open(t, datadir.Config{Path: filepath.Join(short, long), TempDir: short})
		dir := socketDir(t, d)
		if filepath.Dir(dir) != short {
			t.Errorf("sockets go to %s, want a directory in %s", dir, short)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", dir, err)
		}
	})
	t.Run("nowhere", func(t *testing.T) {
		temp := filepath.Join(short, long)
		d := open(t, datadir.Config{Path: filepath.Join(short, long), TempDir: temp})
		_, err := d.EtcdSocketDir()
		wantError(t, err, datadir.ErrUnusable, "too long", "--data-dir", "TMPDIR")
	})
}

// socketDir returns the socket directory, after it has checked that a second call
// returns the same, and that the longest socket name can be bound.
func socketDir(t *testing.T, d *datadir.Dir) string {
	t.Helper()
	dir, err := d.EtcdSocketDir()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := d.EtcdSocketDir(); err != nil || again != dir {
		t.Errorf("second call gave %s, %v, want %s", again, err, dir)
	}
	wantMode(t, dir, 0o700)
	socket := filepath.Join(dir, strings.Repeat("s", datadir.MaxSocketName))
	if len(socket) >= 100 {
		t.Errorf("socket path of %d bytes", len(socket))
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	return dir
}
