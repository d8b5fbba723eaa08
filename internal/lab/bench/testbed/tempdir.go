package testbed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

const (
	tempPrefix = "millrace-bench-"
	// tempLock is a file in a temporary directory, which the process that uses the directory
	// has locked. The kernel unlocks it when that process ends, also by SIGKILL.
	tempLock = "in-use"
)

// dirAttempts bounds how often another process may take a new directory for an abandoned one.
const dirAttempts = 10

var errTaken = errors.New("another process has taken it for abandoned")

// TemporaryDir creates a temporary directory. It also removes the directories of processes that
// were killed. The caller must call remove.
func TemporaryDir() (dir string, remove func(), err error) {
	removeAbandoned(os.TempDir())
	for range dirAttempts {
		if dir, remove, err = lockedDir(); !errors.Is(err, errTaken) {
			break
		}
	}
	return dir, remove, err
}

// lockedDir creates a temporary directory and locks it. The error is errTaken if another process
// has removed it before it was locked.
func lockedDir() (dir string, remove func(), err error) {
	if dir, err = os.MkdirTemp("", tempPrefix); err != nil {
		return "", nil, fmt.Errorf("create temporary directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, tempLock), os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		err = errTaken
	}
	if err == nil {
		if err = lockFile(dir, lock); err != nil {
			_ = lock.Close()
		}
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

// lockFile locks the file tempLock of a directory. The error is errTaken if another process
// has locked the file, or has removed it since.
func lockFile(dir string, lock *os.File) error {
	err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errTaken
	}
	if err != nil {
		return err
	}
	if _, err = os.Stat(filepath.Join(dir, tempLock)); errors.Is(err, fs.ErrNotExist) {
		return errTaken
	}
	return err
}

// removeAbandoned removes temporary directories whose lock no process holds. It keeps
// directories without a lock.
func removeAbandoned(root string) {
	dirs, err := filepath.Glob(filepath.Join(root, tempPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		lock, err := os.OpenFile(filepath.Join(dir, tempLock), os.O_RDWR, 0)
		if err != nil {
			continue // no lock, or the lock of another user
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		_ = lock.Close()
	}
}
