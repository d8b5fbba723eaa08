package datadir

import (
	"fmt"
	"os"
)

const (
	// MaxSocketName is the longest file name, in bytes, that EtcdSocketDir
	// leaves room for.
	MaxSocketName = 16
	// socketPathLimit is above the length of a socket's whole path. Kernels allow 104 or
	// 108 bytes, including the terminating zero.
	socketPathLimit = 100
)

// EtcdSocketDir creates a private directory for the embedded etcd's unix sockets, and
// returns its path. It is Paths().Etcd if socket paths are short enough there, and
// otherwise a temporary directory, which Close removes. Later calls return the same
// directory.
func (d *Dir) EtcdSocketDir() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.lock == nil {
		return "", fmt.Errorf("make socket directory: %w", ErrClosed)
	}
	if d.mu.sockets != "" {
		return d.mu.sockets, nil
	}
	if socketsFit(d.paths.Etcd) {
		if err := os.MkdirAll(d.paths.Etcd, dirMode); err != nil {
			return "", fmt.Errorf("make socket directory: %w", err)
		}
		d.mu.sockets = d.paths.Etcd
		return d.mu.sockets, nil
	}
	dir, err := os.MkdirTemp(d.tempDir, "millrace-")
	if err != nil {
		return "", fmt.Errorf("make socket directory: %w", err)
	}
	if !socketsFit(dir) {
		os.Remove(dir)
		return "", newFailure(ErrUnusable, nil, "no room for sockets: both data directory %s and temporary directory %s have too long names: choose a shorter --data-dir or TMPDIR", d.paths.Root, d.tempDir)
	}
	d.mu.sockets = dir
	return dir, nil
}

// socketsFit reports whether the paths of sockets in a directory are short enough.
func socketsFit(dir string) bool {
	return len(dir)+len("/")+MaxSocketName < socketPathLimit
}
