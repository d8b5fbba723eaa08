package testbed

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const (
	tempPrefix = "millrace-bench-"
	// tempLock is a file in a temporary directory that its process has locked. The kernel
	// frees it when the process ends, whatever ends it.
	tempLock = "in-use"
)

// TemporaryDir makes a temporary directory, and removes those that processes have left which
// were killed. The caller must call remove in the end.
func TemporaryDir() (dir string, remove func(), err error) {
	removeAbandoned(os.TempDir())
	if dir, err = os.MkdirTemp("", tempPrefix); err != nil {
		return "", nil, fmt.Errorf("create temporary directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, tempLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, fmt.Errorf("lock temporary directory: %w", err)
	}
	return dir, func() {
		_ = os.RemoveAll(dir)
		_ = lock.Close() // last, so that nobody else removes the directory meanwhile
	}, nil
}

// removeAbandoned removes temporary directories whose lock nobody holds. One without a lock is
// to be kept.
func removeAbandoned(root string) {
	dirs, err := filepath.Glob(filepath.Join(root, tempPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		lock, err := os.OpenFile(filepath.Join(dir, tempLock), os.O_RDWR, 0)
		if err != nil {
			continue // none, or another user's
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		_ = lock.Close()
	}
}
