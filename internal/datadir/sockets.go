package datadir

import (
	"fmt"
	"os"
)

const (
	// MaxSocketName is the longest file name, in bytes, that EtcdSocketDir
	// leaves room for.
	MaxSocketName = 16
	// socketPathLimit is what a socket's whole path stays below. Kernels cut
	// off at 104 or 108 bytes, the terminating zero included.
	socketPathLimit = 100
)

// EtcdSocketDir returns a private directory for the embedded etcd's unix
// sockets, and creates it. It is Paths().Etcd if socket paths stay short enough
// there, and otherwise a temporary directory which Close removes. Later calls
// return the same directory.
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
		return "", fail(ErrUnusable, nil, "no room for sockets: both data directory %s and temporary directory %s have too long names: choose a shorter --data-dir or TMPDIR", d.paths.Root, d.tempDir)
	}
	d.mu.sockets = dir
	return dir, nil
}

func socketsFit(dir string) bool {
	return len(dir)+len("/")+MaxSocketName < socketPathLimit
}
