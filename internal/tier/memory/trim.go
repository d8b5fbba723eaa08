package memory

import (
	"context"
	"log/slog"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Trimmer gives memory back to the system once the process is quiet, and tunes the garbage
// collector (gcTuner). Go's collector lets the heap grow, and its scavenger keeps most of the
// growth. After a load from etcd or a burst of writes, a server would hold it for good.
//
// A trim collects, which costs some 100 ms of CPU. So the trimmer trims only when
// it pays, and only when no other collection ran since the last check. A busy
// server collects in any case, as its gcTuner says.
//
// Only one goroutine may use a trimmer.
type Trimmer struct {
	TrimmerConfig
	// samples are indexed by sampleCycles and the constants after it.
	samples []metrics.Sample
	// cycles is the number of collections at the last check. quietChecks is the number of checks
	// for which it has stayed the same.
	cycles, quietChecks uint64
	// dropped is the size of what Expire dropped since the last collection, in bytes.
	dropped uint64
	gcTuner gcTuner
}

// TrimmerConfig names the memory that a trimmer gives back. All fields but Files are
// required.
type TrimmerConfig struct {
	// Files are mapped into memory, such as etcd's database, all of which a load touches
	// once. See releasePages for their form.
	Files []string
	// Expire drops events that are too old, and returns their bytes.
	Expire func() int64
	// Release drops caches that only a busy server needs.
	Release func()
	// Warming reports whether the server encodes ahead of requests.
	Warming func() bool
	// CollectorHeadroom is Shares.CollectorHeadroom, in bytes.
	CollectorHeadroom int64
	Logger            *slog.Logger
}

const (
	trimPeriod = 10 * time.Second
	// A trim must be able to give back trimGain bytes after one check without a
	// collection. After n checks an n-th of trimGain is enough, but at least trimLeast.
	trimGain  = 48 << 20
	trimLeast = 8 << 20
	// A burst of at least minDroppedBurst dropped bytes is worth a trim of its own once
	// the burst is over. Small events are spread over many pages.
	minDroppedBurst = 1 << 20
)

const (
	sampleCycles = iota
	sampleObjects
	sampleLive
	sampleFree
)

// NewTrimmer makes a trimmer, and sets the garbage collector. It starts nothing.
func NewTrimmer(cfg TrimmerConfig) *Trimmer {
	return &Trimmer{
		TrimmerConfig: cfg, gcTuner: newGCTuner(cfg.CollectorHeadroom, cfg.Warming),
		samples: []metrics.Sample{
			sampleCycles:  {Name: "/gc/cycles/total:gc-cycles"},
			sampleObjects: {Name: "/memory/classes/heap/objects:bytes"},
			sampleLive:    {Name: "/gc/heap/live:bytes"},
			sampleFree:    {Name: "/memory/classes/heap/free:bytes"},
		},
	}
}

// Run trims, and tunes the collector, until the context ends.
func (t *Trimmer) Run(ctx context.Context) {
	trim, tune := time.NewTicker(trimPeriod), time.NewTicker(gcTunerPeriod)
	defer trim.Stop()
	defer tune.Stop()
	for {
		select {
		case <-tune.C:
			t.gcTuner.adjust()
		case <-trim.C:
			t.check()
		case <-ctx.Done():
			return
		}
	}
}

// check expires events, and trims if that pays.
func (t *Trimmer) check() {
	dropped := uint64(t.Expire())
	metrics.Read(t.samples)
	if cycles := t.samples[sampleCycles].Value.Uint64(); cycles != t.cycles {
		t.cycles, t.quietChecks, t.dropped = cycles, 0, dropped
		return
	}
	t.quietChecks++
	t.dropped += dropped
	burstEnded := t.dropped >= minDroppedBurst && dropped < minDroppedBurst/16
	if !burstEnded && t.gain() < max(trimGain/t.quietChecks, trimLeast) {
		return
	}
	t.Trim()
}

// Trim calls Release, collects, and gives free pages and the pages of Files back. It must not be
// called while Run runs.
func (t *Trimmer) Trim() {
	t.Release()
	debug.FreeOSMemory()
	if err := releasePages(t.Files...); err != nil {
		t.Logger.Error("Could not give memory back", "err", err)
	}
	metrics.Read(t.samples)
	t.cycles, t.quietChecks, t.dropped = t.samples[sampleCycles].Value.Uint64(), 0, 0
}

// gain estimates the bytes that a trim would give back: the free part of the heap, new
// objects since the last collection, and dropped events.
func (t *Trimmer) gain() uint64 {
	objects, live := t.samples[sampleObjects].Value.Uint64(), t.samples[sampleLive].Value.Uint64()
	return t.samples[sampleFree].Value.Uint64() + objects - min(objects, live) + t.dropped
}
