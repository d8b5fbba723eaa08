package server

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/klog/v2"
)

// trimmer gives memory back to the system once the process is quiet. Go's
// collector lets the heap grow and its scavenger keeps most of that; after a load
// from etcd or a burst of writes a server would hold it for good. A collection
// costs some 100 ms of CPU, so it runs only when it pays and when no other ran
// since the last look: a busy server collects anyway, as its pacer says.
type trimmer struct {
	samples []metrics.Sample
	// files are mapped; see releasePages.
	files []string
	// expire drops what is too old, and returns its bytes.
	expire func() int64
	// release lets go of what only a busy server needs.
	release func()
	// cycles is the number of collections at the last look, and quiet how many looks
	// ago it was another. dropped are bytes that were live then.
	cycles, quietChecks, dropped uint64
	gcPacer                   gcPacer
}

const (
	trimPeriod = 10 * time.Second
	// trimGain is the least that a trim must be able to give back after one period
	// without a collection. After n of them an n-th of it is enough, down to trimLeast.
	trimGain  = 48 << 20
	trimLeast = 8 << 20
	// minDroppedBurst bytes that were dropped are worth one when no more are: little events
	// keep pages of what is gone.
	minDroppedBurst = 1 << 20
)

const (
	sampleCycles = iota
	sampleObjects
	sampleLive
	sampleFree
)

func newTrimmer(files []string, expire func() int64, rest func(), idle func() bool) *trimmer {
	return &trimmer{files: files, expire: expire, release: rest, gcPacer: newGCPacer(idle), samples: []metrics.Sample{
		sampleCycles:  {Name: "/gc/cycles/total:gc-cycles"},
		sampleObjects: {Name: "/memory/classes/heap/objects:bytes"},
		sampleLive:    {Name: "/gc/heap/live:bytes"},
		sampleFree:    {Name: "/memory/classes/heap/free:bytes"},
	}}
}

// run looks every few seconds until the context ends.
func (t *trimmer) run(ctx context.Context) {
	trim, pace := time.NewTicker(trimPeriod), time.NewTicker(gcPacerPeriod)
	defer trim.Stop()
	defer pace.Stop()
	for {
		select {
		case <-pace.C:
			t.gcPacer.adjust()
		case <-trim.C:
			t.check()
		case <-ctx.Done():
			return
		}
	}
}

func (t *trimmer) check() {
	dropped := uint64(t.expire())
	metrics.Read(t.samples)
	if cycles := t.samples[sampleCycles].Value.Uint64(); cycles != t.cycles {
		t.cycles, t.quietChecks, t.dropped = cycles, 0, dropped
		return
	}
	t.quietChecks++
	t.dropped += dropped
	over := t.dropped >= minDroppedBurst && dropped < minDroppedBurst/16
	if !over && t.gain() < max(trimGain/t.quietChecks, trimLeast) {
		return
	}
	t.trim()
}

// trim gives back what it can.
func (t *trimmer) trim() {
	t.release()
	debug.FreeOSMemory()
	if err := releasePages(t.files...); err != nil {
		klog.ErrorS(err, "Could not give memory back")
	}
	metrics.Read(t.samples)
	t.cycles, t.quietChecks, t.dropped = t.samples[sampleCycles].Value.Uint64(), 0, 0
}

// gain is about what a trim would give back, in bytes: what the heap has that it does
// not use, what came since the last collection, and what was dropped.
func (t *trimmer) gain() uint64 {
	objects, live := t.samples[sampleObjects].Value.Uint64(), t.samples[sampleLive].Value.Uint64()
	return t.samples[sampleFree].Value.Uint64() + objects - min(objects, live) + t.dropped
}
