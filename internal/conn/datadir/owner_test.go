package datadir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/conn/datadir"
)

// otherUsersDir returns a private directory of another user. Without the permission to
// make one it returns the system's directory for temporary files.
func otherUsersDir(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		return "/tmp"
	}
	dir := t.TempDir()
	giveAway(t, dir)
	return dir
}

// giveAway gives a file to another user, or skips the test.
func giveAway(t *testing.T, file string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	if err := os.Lchown(file, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(file); err == nil && info.Mode().IsDir() {
		writeMode(t, file, 0o700)
	}
}

func TestOpenRefusesAnotherUsersDirectory(t *testing.T) {
	root := otherUsersDir(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{root, link} {
		_, err := datadir.Open(datadir.Config{Path: path})
		wantError(t, err, datadir.ErrUnusable, path, "belongs to user", "--data-dir")
		if _, err := os.Stat(filepath.Join(root, "pki")); err == nil {
			t.Errorf("keys were made in %s", root)
		}
	}
}

// TestOpenRefusesAnotherUsersLink opens a link, which its owner may point elsewhere.
func TestOpenRefusesAnotherUsersLink(t *testing.T) {
	root, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	d, err := datadir.Open(datadir.Config{Path: link})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	giveAway(t, link)
	_, err = datadir.Open(datadir.Config{Path: link})
	wantError(t, err, datadir.ErrUnusable, link, "belongs to user", "--data-dir")
}

// TestOpenRefusesAnotherUsersPart has the keys or the database in a directory outside,
// which belongs to another user, or which other users may write to.
func TestOpenRefusesAnotherUsersPart(t *testing.T) {
	for _, part := range []string{"pki", "etcd", "etcd/data"} {
		root := t.TempDir()
		writeMode(t, root, 0o700)
		dir := filepath.Join(root, part)
		if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
			t.Fatal(err)
		}
		elsewhere := t.TempDir()
		if err := os.Symlink(elsewhere, dir); err != nil {
			t.Fatal(err)
		}
		writeMode(t, elsewhere, 0o777)
		_, err := datadir.Open(datadir.Config{Path: root})
		wantError(t, err, datadir.ErrUnusable, dir, "chmod")
		writeMode(t, elsewhere, 0o755)
		d, err := datadir.Open(datadir.Config{Path: root})
		if err != nil {
			t.Fatalf("%s elsewhere: %v", part, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		giveAway(t, elsewhere)
		_, err = datadir.Open(datadir.Config{Path: root})
		wantError(t, err, datadir.ErrUnusable, dir, "belongs to user", "chown")
	}
}

// TestLookupRefusesAnotherUsersDirectory checks that no kubeconfig of another user is
// used, since a kubeconfig may name a program to run.
func TestLookupRefusesAnotherUsersDirectory(t *testing.T) {
	root := t.TempDir()
	d := open(t, datadir.Config{Path: root})
	ensure(t, d, datadir.Hosts{})
	if _, err := datadir.Lookup(root); err != nil {
		t.Fatal(err)
	}
	giveAway(t, root)
	_, err := datadir.Lookup(root)
	wantError(t, err, datadir.ErrNotFound, root, "belongs to user", "--kubeconfig")
	if strings.Contains(err.Error(), "no millrace data directory") {
		t.Errorf("the error says that there is no directory: %v", err)
	}
}
