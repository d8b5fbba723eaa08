package server

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/klog/v2"
)

// trimmer gives memory back to the system once the process is quiet. Go's
// collector lets the heap grow to twice what is live and its scavenger keeps
// most of that; after a load from etcd or a burst of writes a server would hold
// it for good. A collection costs some 100 ms of CPU, so it runs only when it
// pays and when no other ran since the last look: a busy server collects anyway.
type trimmer struct {
	samples []metrics.Sample
	// files are mapped; see releasePages.
	files []string
	// rest lets go of what only a busy server needs.
	rest func()
	// live is the heap after the last trim.
	live uint64
	// cycles is the number of collections at the last look.
	cycles uint64
}

// The heap may grow by so much before it is collected, in bytes and in percent of
// what is live. A small heap is collected seldom, since garbage of requests fills
// it. A large one is mostly stored bytes, which cost the collector nothing
// (docs/bench/memory.md).
const (
	gcHeadroom      = 192 << 20
	gcLarge         = 256 << 20
	gcLargeHeadroom = 64 << 20
	gcLeast         = 10
	gcMost          = 150
)

// gcLoading is the percentage while everything is read from etcd: garbage of
// decoded objects comes faster than ever after, and is given back at once.
const gcLoading = 300

// tuneGC sets the collector for a live heap.
func tuneGC(live uint64) {
	headroom := uint64(gcHeadroom)
	if live > gcLarge {
		headroom = gcLargeHeadroom
	}
	setGC(int(max(gcLeast, min(gcMost, 100*headroom/max(live, 1)))))
}

// setGC sets the collector, unless the operator chose with GOGC.
func setGC(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

const (
	trimPeriod = 10 * time.Second
	// trimGain is the least that a trim must be able to give back.
	trimGain = 48 << 20
)

const (
	sampleCycles = iota
	sampleLive
	sampleFree
	sampleUnused
	sampleMarked
)

func newTrimmer(files []string, rest func()) *trimmer {
	return &trimmer{files: files, rest: rest, samples: []metrics.Sample{
		sampleCycles: {Name: "/gc/cycles/total:gc-cycles"},
		sampleLive:   {Name: "/memory/classes/heap/objects:bytes"},
		sampleFree:   {Name: "/memory/classes/heap/free:bytes"},
		sampleUnused: {Name: "/memory/classes/heap/unused:bytes"},
		sampleMarked: {Name: "/gc/heap/live:bytes"},
	}}
}

// run looks every few seconds until the context ends.
func (t *trimmer) run(ctx context.Context) {
	ticker := time.NewTicker(trimPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			t.look()
		case <-ctx.Done():
			return
		}
	}
}

// marked is what was live at the last collection.
func (t *trimmer) marked() uint64 {
	metrics.Read(t.samples)
	return t.samples[sampleMarked].Value.Uint64()
}

func (t *trimmer) look() {
	tuneGC(t.marked())
	cycles := t.samples[sampleCycles].Value.Uint64()
	quiet := cycles == t.cycles
	t.cycles = cycles
	held := t.samples[sampleLive].Value.Uint64() + t.samples[sampleFree].Value.Uint64() + t.samples[sampleUnused].Value.Uint64()
	if !quiet || held < t.live+trimGain {
		return
	}
	t.rest()
	debug.FreeOSMemory()
	if err := releasePages(t.files...); err != nil {
		klog.ErrorS(err, "Could not give memory back")
	}
	metrics.Read(t.samples)
	t.cycles = t.samples[sampleCycles].Value.Uint64()
	t.live = t.samples[sampleLive].Value.Uint64() + t.samples[sampleUnused].Value.Uint64()
}
