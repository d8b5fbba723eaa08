package memory

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// gcPacer sets how far the heap may grow between two collections: its headroom.
// Go sets that as a percentage of the live heap (GOGC), which fits neither end.
//
// A small heap gets a fixed headroom. The garbage of requests fills a percentage
// of it in no time.
//
// A large heap gets little. It is mostly stored bytes without pointers, which
// cost the collector nothing (docs/bench/memory.md), and twice as much memory
// would buy little CPU. Two things raise its headroom:
//
//   - The scannable memory, on which the cost of a collection depends. The heap may
//     always grow by as much as a collection scans. Otherwise the collector's share
//     of the CPU grows with the number of watches, whose stacks are scanned.
//   - A busy collector. A LIST that encodes all of 100,000 pods makes some GB of
//     garbage. The headroom is doubled while the collector takes a large part of
//     the CPU, and halved again when it no longer does.
//
// The headroom is not doubled while the server encodes ahead of requests: no
// request waits for that. A large heap with little scannable memory gets less,
// because a collection is cheap there.
//
// The price is one sample of the runtime's metrics a second, and a short stop of
// the world whenever the percentage changes.
//
// Only one goroutine may use a gcPacer.
type gcPacer struct {
	// warming reports whether the server encodes ahead of requests.
	warming func() bool
	samples []metrics.Sample
	// maxHeadroom bounds a headroom that is raised, in bytes.
	maxHeadroom uint64
	// doublings is how often the headroom is doubled now. The headroom of a small heap is
	// doubled once at most.
	doublings int
	// percent is the percentage that the collector was last set to.
	percent int
	// last is the CPU time up to the last collection before the last call of adjust.
	last cpuSeconds
}

// cpuSeconds is the CPU time of the process, as the runtime accounts for it at
// the end of each collection.
type cpuSeconds struct{ collector, application float64 }

// heapSize is the result of a collection, in bytes.
type heapSize struct {
	live uint64
	// scannable is the part of the heap that may hold pointers.
	scannable uint64
	// stacks are scanned like the heap. Thousands of watches have many.
	stacks uint64
}

const (
	gcPacerPeriod = time.Second

	// A heap up to largeHeap is small.
	largeHeap = 256 << 20
	// smallHeapHeadroom may be doubled as long as the heap stays below maxSmallHeap.
	// The runtime keeps its accounts of the largest heap there was, 1/40 of it, for
	// good.
	smallHeapHeadroom    = 128 << 20
	maxSmallHeap         = 320 << 20
	minLargeHeapHeadroom = 48 << 20
	// A doubled headroom of a large heap is at most 3/2 of the scannable memory.
	scannableNumerator, scannableDenominator = 3, 2

	// The headroom is doubled, up to maxDoublings times, while the collector has more
	// than busyCollectorShare of the CPU. Below idleCollectorShare it is halved again.
	busyCollectorShare, idleCollectorShare = 0.2, 0.07
	maxDoublings                           = 3

	// The bounds of the percentage that the collector is set to.
	minGCPercent, maxGCPercent = 10, 150
	// The percentage is left as it is while it is off by less than 1/gcPercentTolerance.
	gcPercentTolerance = 8

	// loadingGCPercent holds while everything is read from etcd. The garbage of
	// decoded objects comes faster then than ever after, and goes at once.
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

// newGCPacer makes a pacer and sets the collector. The headroom is doubled at
// first: Kubernetes' own informers decode much while a server starts.
func newGCPacer(maxHeadroom int64, warming func() bool) gcPacer {
	p := gcPacer{
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
	p.last = p.sample()
	p.setPercent()
	return p
}

// sample reads the runtime's metrics and returns the CPU time among them.
func (p *gcPacer) sample() cpuSeconds {
	metrics.Read(p.samples)
	spent := cpuSeconds{application: p.samples[sampleUser].Value.Float64()}
	for _, i := range []int{sampleAssist, sampleDedicated, samplePause} {
		spent.collector += p.samples[i].Value.Float64()
	}
	return spent
}

// adjust adapts the headroom to what the collector cost since the last call, and
// to the heap that the last collection found.
func (p *gcPacer) adjust() {
	sample := p.sample()
	spent := cpuSeconds{collector: sample.collector - p.last.collector, application: sample.application - p.last.application}
	p.doublings = nextDoublings(p.doublings, spent)
	if p.warming() {
		p.doublings = 0
	}
	p.last = sample
	p.setPercent()
}

// nextDoublings returns the doublings after a period that cost so much CPU.
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
func (p *gcPacer) setPercent() {
	heap := heapSize{
		live:      p.samples[sampleGCLive].Value.Uint64(),
		scannable: p.samples[sampleScannable].Value.Uint64(),
		stacks:    p.samples[sampleStacks].Value.Uint64(),
	}
	headroom := heap.headroom(p.maxHeadroom, p.doublings)
	percent := int(max(minGCPercent, min(maxGCPercent, 100*headroom/max(heap.live, 1))))
	if off := percent - p.percent; max(off, -off) > p.percent/gcPercentTolerance {
		p.percent = percent
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

// PaceLoad sets the collector for the time until everything is loaded. A Trimmer's pacer sets
// it from then on. The variable GOGC replaces both.
func PaceLoad() { setGCPercent(loadingGCPercent) }

// setGCPercent sets the collector, unless the operator chose with GOGC.
func setGCPercent(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
