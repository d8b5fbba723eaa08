package server

import (
	"bytes"
	"os"
	"strconv"
)

const (
	// A share of the memory, up to what holds 100,000 pods of 17 KB compressed in
	// the four usual forms (docs/bench/memory.md).
	wireCacheShare = 16
	maxWireCache   = 320 << 20
	// What custom resources need that are written to: 350 kinds of 100 properties on a
	// small machine, 2,800 on a large one. Ten rules take as much as three of them.
	compiledShare            = 48
	minCompiled, maxCompiled = 64 << 20, 512 << 20
	// unknownMemory is assumed where the system does not tell.
	unknownMemory = 2 << 30
)

func defaultWireCache() int64 { return min(availableMemory()/wireCacheShare, maxWireCache) }

// defaultCompiled bounds what is compiled out of the schemas of custom resources. What
// nobody uses for some minutes goes anyway.
func defaultCompiled() int64 { return min(max(availableMemory()/compiledShare, minCompiled), maxCompiled) }

// availableMemory is what this process may use: the machine's or the cgroup's.
func availableMemory() int64 {
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
