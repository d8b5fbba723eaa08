package testbed

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestAbandonedDirs checks that the directory of a killed process is removed, but not a directory in
// use, nor one without a lock.
func TestAbandonedDirs(t *testing.T) {
	root := t.TempDir()
	t.Setenv("TMPDIR", root)
	used, remove, err := TemporaryDir()
	if err != nil {
		t.Fatal(err)
	}
	abandoned, kept := filepath.Join(root, tempPrefix+"1"), filepath.Join(root, tempPrefix+"2")
	for _, dir := range []string{abandoned, kept} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(abandoned, tempLock), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, removeOther, err := TemporaryDir()
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{used: true, kept: true, abandoned: false} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v, want it to be there: %v", dir, err, want)
		}
	}
	remove()
	removeOther()
	if left, _ := filepath.Glob(filepath.Join(root, "*")); len(left) != 1 {
		t.Errorf("left %q, want what is to be kept", left)
	}
}

// TestDirTaken locks a directory that another process has locked, and one that it has removed.
func TestDirTaken(t *testing.T) {
	dir := t.TempDir()
	lock, err := os.Create(filepath.Join(dir, tempLock))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	other, err := os.Open(lock.Name())
	if err != nil {
		t.Fatal(err)
	}
	if err := lockFile(dir, other); err != nil {
		t.Fatal(err)
	}
	if err := lockFile(dir, lock); !errors.Is(err, errTaken) {
		t.Errorf("locked by another process: got %v", err)
	}
	if err := errors.Join(os.Remove(lock.Name()), other.Close()); err != nil {
		t.Fatal(err)
	}
	if err := lockFile(dir, lock); !errors.Is(err, errTaken) {
		t.Errorf("removed by another process: got %v", err)
	}
}
