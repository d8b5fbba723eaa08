package harness

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	memoryDir = "/dev/shm"
	// memoryNeeded is the memory, in bytes, that concurrent tests may need for their servers'
	// files. Each etcd allocates 128 MiB for its log at its start.
	memoryNeeded = 8 << 30
)

// tempRoot returns the directory for temporary directories, "" for the default one. It is in
// memory if enough is free, unless TMPDIR is set: each write to an etcd waits for the disk, on a
// busy machine for seconds.
func tempRoot() string {
	var fs unix.Statfs_t
	if os.Getenv("TMPDIR") != "" || unix.Statfs(memoryDir, &fs) != nil || int64(fs.Bavail)*fs.Bsize < memoryNeeded {
		return ""
	}
	// The free space of the file system is a quota. The memory itself may be in use.
	if availableMemory() < memoryNeeded {
		return ""
	}
	return memoryDir
}

// availableMemory returns the kernel's estimate of the memory that programs may still take, in
// bytes, or 0 without an estimate.
func availableMemory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "MemAvailable:" {
			kibibytes, _ := strconv.ParseInt(fields[1], 10, 64)
			return kibibytes << 10
		}
	}
	return 0
}

// ownedName matches the names that ShortTempDir gives.
var ownedName = regexp.MustCompile("^" + tempPrefix + `(\d+)-`)

// removeAbandoned removes the directories in memory of test processes that ended without their
// cleanups, by SIGKILL or by the panic of a timeout. It leaves other users' directories alone.
func removeAbandoned() {
	entries, err := os.ReadDir(memoryDir)
	if err != nil {
		return
	}
	for _, e := range entries {
		name := ownedName.FindStringSubmatch(e.Name())
		if name == nil || !e.IsDir() {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue
		}
		pid, err := strconv.Atoi(name[1])
		stat, ok := info.Sys().(*syscall.Stat_t)
		if err == nil && ok && int(stat.Uid) == os.Getuid() && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			_ = os.RemoveAll(filepath.Join(memoryDir, e.Name()))
		}
	}
}
