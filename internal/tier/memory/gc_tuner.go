package memory

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// gcTuner sets how far the heap may grow between two collections: its headroom.
// Go takes that as a percentage of the live heap (GOGC). A fixed percentage suits
// neither a small heap nor a large one.
//
// A small heap gets a fixed headroom, which may be raised to twice itself at most. The garbage of
// requests would soon fill a percentage of such a heap.
//
// A large heap gets little. It is mostly stored bytes without pointers, which
// cost the collector nothing (docs/bench/memory.md), and twice as much memory
// would buy little CPU. Two things raise its headroom:
//
//   - The memory that a collection scans: heap that may hold pointers, and stacks. The
//     cost of a collection depends on it. The heap may grow by as much, within
//     maxHeadroom and maxGCPercent. Otherwise the collector's share of the CPU grows
//     with the number of watches, whose stacks are scanned.
//   - A busy collector. A LIST that encodes all of 100,000 pods makes some GB of
//     garbage. The headroom is doubled while the collector takes a large part of
//     the CPU time, and halved again when it takes a small one.
//
// The headroom is not doubled while the server encodes ahead of requests: no
// request waits for that. The headroom of a large heap of which little is scanned is
// doubled less, because a collection is cheap there.
//
// The price is one sample of the runtime's metrics a second, and a short stop of
// the world whenever the percentage changes.
//
// Only one goroutine may use a gcTuner.
type gcTuner struct {
	// warming reports whether the server encodes ahead of requests.
	warming func() bool
	// samples are indexed by sampleGCLive and the constants after it.
	samples []metrics.Sample
	// maxHeadroom bounds a headroom that is raised, in bytes.
	maxHeadroom uint64
	// doublings is how often the headroom is doubled now, within its bounds. More than one counts
	// as one for a small heap.
	doublings int
	// percent is the percentage that was last chosen. If GOGC is set, the collector is not set to
	// it.
	percent int
	// last is the result of the last call of sample.
	last cpuSeconds
}

// cpuSeconds is the CPU time of the process, as the runtime accounts for it at
// the end of each collection.
type cpuSeconds struct{ collector, application float64 }

// heapSize has sizes in bytes. live and stacks are what the last collection found.
type heapSize struct {
	// live is the heap that was reachable.
	live uint64
	// scannable is the part of the heap that may hold pointers, with what was allocated since the
	// last collection.
	scannable uint64
	// stacks is the size of the stacks that were scanned. Thousands of watches have many.
	stacks uint64
}

const (
	gcTunerPeriod = time.Second

	// Sizes are in bytes. A heap up to largeHeap is small.
	largeHeap = 256 << 20
	// smallHeapHeadroom may be raised to twice itself, as far as live heap and headroom stay
	// within maxSmallHeap. The runtime never frees its metadata, about 1/40 of the largest heap
	// that there was.
	smallHeapHeadroom    = 128 << 20
	maxSmallHeap         = 320 << 20
	minLargeHeapHeadroom = 48 << 20
	// A doubled headroom of a large heap is at most 3/2 of its scannable part.
	scannableNumerator, scannableDenominator = 3, 2

	// The headroom is doubled, up to maxDoublings times, while the collector has more than
	// busyCollectorShare of the process's CPU time. Below idleCollectorShare it is halved again.
	busyCollectorShare, idleCollectorShare = 0.2, 0.07
	maxDoublings                           = 3

	// The bounds of the percentage that the collector is set to.
	minGCPercent, maxGCPercent = 10, 150
	// The percentage is left as it is while it is off by at most 1/toleranceDivisor of itself.
	toleranceDivisor = 8

	// loadingGCPercent holds while objects are loaded. The garbage of decoded objects
	// comes faster during a load than ever after, and is short-lived.
	loadingGCPercent = 100
)

const (
	sampleGCLive = iota
	sampleAssist
	sampleDedicated
	samplePause
	sampleUser
	sampleScannable
	sampleStacks
)

// newGCTuner makes a tuner and sets the collector. The headroom begins with maxDoublings:
// Kubernetes' own informers decode much while a server starts.
func newGCTuner(maxHeadroom int64, warming func() bool) gcTuner {
	t := gcTuner{
		warming:     warming,
		doublings:   maxDoublings,
		maxHeadroom: uint64(maxHeadroom),
		samples: []metrics.Sample{
			sampleGCLive:    {Name: "/gc/heap/live:bytes"},
			sampleAssist:    {Name: "/cpu/classes/gc/mark/assist:cpu-seconds"},
			sampleDedicated: {Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"},
			samplePause:     {Name: "/cpu/classes/gc/pause:cpu-seconds"},
			sampleUser:      {Name: "/cpu/classes/user:cpu-seconds"},
			sampleScannable: {Name: "/gc/scan/heap:bytes"},
			sampleStacks:    {Name: "/gc/scan/stack:bytes"},
		},
	}
	t.last = t.sample()
	t.setPercent()
	return t
}

// sample reads the runtime's metrics into samples, and returns the CPU time among them. Idle
// marking is left out: it takes only CPU that nothing else uses.
func (t *gcTuner) sample() cpuSeconds {
	metrics.Read(t.samples)
	spent := cpuSeconds{application: t.samples[sampleUser].Value.Float64()}
	for _, i := range []int{sampleAssist, sampleDedicated, samplePause} {
		spent.collector += t.samples[i].Value.Float64()
	}
	return spent
}

// adjust adapts the headroom to what the collector cost since the last call, and to the heap.
func (t *gcTuner) adjust() {
	sample := t.sample()
	spent := cpuSeconds{collector: sample.collector - t.last.collector, application: sample.application - t.last.application}
	t.doublings = nextDoublings(t.doublings, spent)
	if t.warming() {
		t.doublings = 0
	}
	t.last = sample
	t.setPercent()
}

// nextDoublings returns the doublings after a period in which spent was the CPU time.
func nextDoublings(doublings int, spent cpuSeconds) int {
	switch share := spent.collector / max(spent.collector+spent.application, 1e-9); {
	case share > busyCollectorShare:
		return min(doublings+1, maxDoublings)
	case share < idleCollectorShare:
		return max(doublings-1, 0)
	}
	return doublings
}

// setPercent sets the collector's percentage for the heap of the last sample. A
// small change is not worth it: setting the percentage stops the world.
func (t *gcTuner) setPercent() {
	heap := heapSize{
		live:      t.samples[sampleGCLive].Value.Uint64(),
		scannable: t.samples[sampleScannable].Value.Uint64(),
		stacks:    t.samples[sampleStacks].Value.Uint64(),
	}
	headroom := heap.headroom(t.maxHeadroom, t.doublings)
	percent := int(max(minGCPercent, min(maxGCPercent, 100*headroom/max(heap.live, 1))))
	if off := percent - t.percent; max(off, -off) > t.percent/toleranceDivisor {
		t.percent = percent
		setGCPercent(percent)
	}
}

// headroom returns how far a heap may grow, in bytes. maxHeadroom bounds the result, but
// not below the least for the heap's size.
func (h heapSize) headroom(maxHeadroom uint64, doublings int) uint64 {
	if h.live <= largeHeap {
		return max(smallHeapHeadroom, min(smallHeapHeadroom<<min(doublings, 1), maxHeadroom, maxSmallHeap-h.live))
	}
	scanned := max(minLargeHeapHeadroom, min(h.scannable+h.stacks, maxHeadroom))
	doubled := min(minLargeHeapHeadroom<<doublings, maxHeadroom, scannableNumerator*h.scannable/scannableDenominator)
	return max(scanned, doubled)
}

// SetLoadingGCPercent sets the collector for the time until all objects are loaded. From
// NewTrimmer on, a Trimmer sets it. The environment variable GOGC replaces both.
func SetLoadingGCPercent() { setGCPercent(loadingGCPercent) }

// setGCPercent sets the collector, unless the operator chose with GOGC.
func setGCPercent(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
