package memory

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// Shares is how the memory that this process may use is divided among the components that
// keep bytes for later. It is computed once, before anything is built, and each component
// gets its share by its Config. No component looks at the machine itself. docs/flow.md has
// the shares as a table.
//
// The shares are upper bounds, and none of them is reserved. What is left is for
// the stored objects, which have no bound: they are the data. All shares but ReplayRevisions
// are in bytes.
type Shares struct {
	// Total is the memory of the machine or of the cgroup, in bytes.
	Total int64
	// WireCache bounds the encoded bytes that are kept for the next reader. The
	// large segments that encode.Budget keeps for a short while are in addition.
	WireCache int64
	// CompiledSchemas bounds the compiled schemas of custom resources, by an estimate.
	// ConvertedObjects bounds the objects that conversion webhooks have returned.
	CompiledSchemas, ConvertedObjects int64
	// History bounds the events of one resource that are kept for watches.
	History int64
	// WatchFrames bounds the encoded events that are kept for watches that lag a little.
	WatchFrames int64
	// ReplayRevisions is at most how many revisions a start replays from each etcd cluster.
	ReplayRevisions int64
	// CollectorHeadroom bounds how far gcTuner raises the growth of the heap between two
	// collections.
	CollectorHeadroom int64
}

const (
	// The wire cache at its most holds 100,000 pods of 17 KB compressed in the four
	// usual forms (docs/bench/memory.md).
	wireCacheDivisor = 16
	maxWireCache     = 320 << 20

	// Schemas are compiled for resources that are written to. This is enough for 350 kinds of
	// 100 properties on a small machine, and for 2,800 on a large one. Ten validation rules
	// take as much as three kinds. What is not used for some minutes is dropped in any case.
	compiledDivisor          = 48
	minCompiled, maxCompiled = 64 << 20, 512 << 20
	// ConvertedObjects is a convertedDivisor-th of CompiledSchemas.
	convertedDivisor = 2

	historyBytes     = 64 << 20
	watchFramesBytes = 32 << 20

	// The embedded etcd reads all revisions of a replay in one range. With one revision for each
	// replayRevisionBytes of the memory, a replay of large objects takes a fifth of the memory
	// (docs/bench/history.md). maxReplayRevisions is the feed's default.
	replayRevisionBytes = 96 << 10
	maxReplayRevisions  = 50_000

	collectorDivisor     = 48
	maxCollectorHeadroom = 384 << 20

	// unknownMemory is assumed on systems that do not report their memory.
	unknownMemory = 2 << 30
)

// Divide divides total bytes into shares. Flags may change some shares afterwards.
func Divide(total int64) Shares {
	compiled := min(max(total/compiledDivisor, minCompiled), maxCompiled)
	return Shares{
		Total:             total,
		WireCache:         min(total/wireCacheDivisor, maxWireCache),
		CompiledSchemas:   compiled,
		ConvertedObjects:  compiled / convertedDivisor,
		History:           historyBytes,
		WatchFrames:       watchFramesBytes,
		ReplayRevisions:   min(total/replayRevisionBytes, maxReplayRevisions),
		CollectorHeadroom: min(total/collectorDivisor, maxCollectorHeadroom),
	}
}

// SetCompiledSchemas sets the share of compiled schemas, and the share of converted
// objects, which follows from it.
func (s *Shares) SetCompiledSchemas(bytes int64) {
	s.CompiledSchemas, s.ConvertedObjects = bytes, bytes/convertedDivisor
}

// Available returns the memory that this process may use, in bytes. That is the machine's, or
// the limit of the container's cgroup (version 2) if that is less. Limits of cgroups outside of
// a container are not read. If the system does not report its memory, unknownMemory takes the
// place of the machine's.
func Available() int64 {
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

// Resident returns the process's resident memory in bytes, or 0 where the system
// does not report it.
func Resident() int64 {
	content, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(content))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
