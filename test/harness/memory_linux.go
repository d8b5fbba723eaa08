package harness

import (
	"os"

	"golang.org/x/sys/unix"
)

const (
	memoryDir = "/dev/shm"
	// memoryNeeded is what servers of tests that run side by side may take. Each etcd
	// allocates 128 MiB for its log at once.
	memoryNeeded = 8 << 30
)

// tempRoot returns the directory of temporary directories, "" for the default one. It is in
// memory if there is plenty, unless TMPDIR names another: each write to an etcd waits for the
// disk, and on a busy machine for seconds.
func tempRoot() string {
	var fs unix.Statfs_t
	if os.Getenv("TMPDIR") != "" || unix.Statfs(memoryDir, &fs) != nil || int64(fs.Bavail)*fs.Bsize < memoryNeeded {
		return ""
	}
	return memoryDir
}
