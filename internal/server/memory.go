package server

import (
	"bytes"
	"os"
	"strconv"
)

const (
	wireCacheShare = 8
	maxWireCache   = 2 << 30
	// unknownMemory is assumed where the system does not tell.
	unknownMemory = 2 << 30
)

func defaultWireCache() int64 { return min(memory()/wireCacheShare, maxWireCache) }

// memory is what this process may use: the machine's or the cgroup's.
func memory() int64 {
	limit := int64(unknownMemory)
	if info, err := os.ReadFile("/proc/meminfo"); err == nil {
		if fields := bytes.Fields(info); len(fields) > 1 && string(fields[0]) == "MemTotal:" {
			if kib, err := strconv.ParseInt(string(fields[1]), 10, 64); err == nil {
				limit = kib << 10
			}
		}
	}
	if content, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(content)), 10, 64); err == nil {
			limit = min(limit, n)
		}
	}
	return limit
}
