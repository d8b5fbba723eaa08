package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	dirMode  fs.FileMode = 0o700
	keyMode  fs.FileMode = 0o600
	certMode fs.FileMode = 0o644
	// othersMode are the permissions of other users, which a private directory lacks.
	othersMode fs.FileMode = 0o077
	// othersWrite are the permissions of other users to write.
	othersWrite fs.FileMode = 0o022
)

// Config says which directory to open. The zero value opens DefaultPath.
type Config struct {
	// Path is the directory. "" means DefaultPath. It is made absolute once.
	Path string
	// Now is the clock for judging and issuing certificates. Nil means time.Now.
	Now func() time.Time
	// TempDir has the socket directory when Path is too long for sockets. Empty means
	// the system's directory for temporary files.
	TempDir string
}

// Dir is a data directory whose lock this process holds. Its methods may be called
// from any goroutine.
type Dir struct {
	paths   Paths
	now     func() time.Time
	tempDir string

	mu struct {
		sync.Mutex
		lock    *os.File // nil once closed
		sockets string   // as returned by EtcdSocketDir; empty before
	}
}

// Open creates the directory if it is missing, makes it private to its user and takes
// its lock. It refuses a directory of another user, who could exchange the keys in it.
// It fails with ErrInUse when another process, or another Dir of this process, holds
// the lock.
//
// A directory that others may read is made private only if it is empty or already a
// data directory. So a shared directory that is named by mistake stays open to its
// other users.
func Open(cfg Config) (*Dir, error) {
	root, err := absolute(cfg.Path)
	if err != nil {
		return nil, err
	}
	if err := prepareRoot(root); err != nil {
		return nil, err
	}
	if err := checkParts(newPaths(root)); err != nil {
		return nil, err
	}
	d := &Dir{paths: newPaths(root), now: cfg.Now, tempDir: cfg.TempDir}
	if d.now == nil {
		d.now = time.Now
	}
	if d.tempDir == "" {
		d.tempDir = os.TempDir()
	}
	lock, err := takeLock(d.paths)
	if err != nil {
		return nil, err
	}
	d.mu.lock = lock
	return d, nil
}

// Paths returns the names of the directory's files.
func (d *Dir) Paths() Paths { return d.paths }

// Close removes the temporary socket directory, if there is one, and releases the
// lock. Nothing may use the directory any more. A second call does nothing.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.lock == nil {
		return nil
	}
	var errs []error
	if d.mu.sockets != "" && d.mu.sockets != d.paths.Etcd {
		if err := os.RemoveAll(d.mu.sockets); err != nil {
			errs = append(errs, fmt.Errorf("remove socket directory: %w", err))
		}
	}
	if err := releaseLock(d.mu.lock); err != nil {
		errs = append(errs, err)
	}
	d.mu.lock = nil
	return errors.Join(errs...)
}

// prepareRoot makes sure that there is a private directory that this user may write.
func prepareRoot(root string) error {
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		return newFailure(ErrUnusable, err, "cannot create data directory %s: %v: choose another with --data-dir", root, err)
	}
	if err := os.Mkdir(root, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return newFailure(ErrUnusable, err, "cannot create data directory %s: %v: choose another with --data-dir", root, cause(err))
	}
	info, err := os.Stat(root)
	if err != nil {
		return newFailure(ErrUnusable, err, "cannot use data directory %s: %v: choose another with --data-dir", root, cause(err))
	}
	if !info.IsDir() {
		return newFailure(ErrUnusable, nil, "data directory %s is not a directory: remove it or choose another with --data-dir", root)
	}
	if err := checkOwner(root); err != nil {
		return err
	}
	if err := unix.Access(root, unix.R_OK|unix.W_OK|unix.X_OK); err != nil {
		return newFailure(ErrUnusable, err, "data directory %s is not writable (%v): run as its owner or choose another with --data-dir", root, err)
	}
	if info.Mode().Perm()&othersMode != 0 {
		return tighten(root, info)
	}
	return nil
}

// tighten removes the permissions of other users from a data directory.
func tighten(root string, info fs.FileInfo) error {
	ours, err := isOurs(root)
	if err != nil {
		return newFailure(ErrUnusable, err, "cannot read data directory %s: %v: choose another with --data-dir", root, cause(err))
	}
	if !ours {
		return newFailure(ErrUnusable, nil, "data directory %s is open to other users and holds files that are not millrace's: choose a directory of its own with --data-dir, or run `chmod 700 %s` if it is meant", root, root)
	}
	mode := info.Mode() &^ othersMode
	if err := os.Chmod(root, mode); err != nil {
		return newFailure(ErrUnusable, err, "cannot make data directory %s private (%v): run as its owner or choose another with --data-dir", root, cause(err))
	}
	return nil
}

// isOurs reports whether a directory is a data directory, or empty. A directory with
// other files and without a lock has other uses.
func isOurs(root string) (bool, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return false, err
	}
	foreign := false
	for _, entry := range entries {
		switch {
		case entry.Name() == "lock" && entry.Type().IsRegular():
			return true, nil
		case entry.Name() == "lost+found": // in an empty volume
		default:
			foreign = true
		}
	}
	return !foreign, nil
}
