package server

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// gcPacer sets how far the heap may grow before it is collected.
//
// A small heap is collected seldom, since garbage of requests fills it. A large
// one may grow little: it is mostly stored bytes, which cost the collector nothing
// (docs/bench/memory.md). What else is in it does cost, for each collection, so
// while the collector takes a large part of the CPU the heap may grow by more: a
// LIST that has to encode all of 100,000 pods makes garbage of some GB. It may not
// for what nobody waits for, nor where a large one has little to walk through: then a
// collection is cheap, and the garbage is of large objects. As much as a collection
// walks through it may always grow by, so that what garbage costs does not grow with
// the number of watches.
type gcPacer struct {
	// idle reports whether the server works ahead of requests.
	idle    func() bool
	samples []metrics.Sample
	// maxHeadroom is the greatest headroom of a heap that is given more, in bytes.
	maxHeadroom uint64
	// doublings is how often the headroom is doubled now, that of a small heap once at most.
	doublings int
	// percent is what the collector was last told.
	percent int
	last    gcCPU
}

// gcCPU is what the process has spent, in CPU seconds, up to the last collection.
type gcCPU struct{ collecting, application float64 }

const (
	gcPacerPeriod = time.Second
	// Headroom in bytes: of a heap below gcLarge, and of a larger one.
	smallHeapHeadroom = 128 << 20
	largeHeap    = 256 << 20
	// maxSmallHeap is what a small heap grows to at most by a headroom that is doubled. The
	// runtime keeps its accounts of the largest heap that there was, 1/40 of it, for good.
	maxSmallHeap           = 320 << 20
	minLargeHeapHeadroom = 48 << 20
	// In percent of what is live.
	minGCPercent = 10
	maxGCPercent  = 150
	// gcPercentTolerance is the part by which the percentage may be off.
	gcPercentTolerance = 8
	// Both are doubled while the collector has more than busyCollectorShare of the CPU, up to
	// gcWidest times for a large heap, and halved again below idleCollectorShare. The most is a share of the memory,
	// and gcWalked halves of what a collection walks through.
	busyCollectorShare, idleCollectorShare = 0.2, 0.07
	maxDoublings       = 3
	gcMostShare    = 48
	gcMostHeadroom = 384 << 20
	scannedHalves       = 3
)

// loadingGCPercent is the percentage while everything is read from etcd: garbage of
// decoded objects comes faster than ever after, and is given back at once.
const loadingGCPercent = 100

const (
	sampleGCLive = iota
	sampleAssist
	sampleDedicated
	samplePause
	sampleUser
	sampleScannable
	sampleStacks
)

func newGCPacer(idle func() bool) gcPacer {
	p := gcPacer{
		idle: idle,
		// Kubernetes' own informers decode much while a server starts.
		doublings: maxDoublings,
		maxHeadroom:  uint64(min(availableMemory()/gcMostShare, gcMostHeadroom)),
		samples: []metrics.Sample{
			sampleGCLive:    {Name: "/gc/heap/live:bytes"},
			sampleAssist:    {Name: "/cpu/classes/gc/mark/assist:cpu-seconds"},
			sampleDedicated: {Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"},
			samplePause:     {Name: "/cpu/classes/gc/pause:cpu-seconds"},
			sampleUser:      {Name: "/cpu/classes/user:cpu-seconds"},
			sampleScannable:    {Name: "/gc/scan/heap:bytes"},
			sampleStacks:    {Name: "/gc/scan/stack:bytes"},
		},
	}
	p.last = p.readCPU()
	p.setPercent()
	return p
}

func (p *gcPacer) readCPU() gcCPU {
	metrics.Read(p.samples)
	now := gcCPU{application: p.samples[sampleUser].Value.Float64()}
	for _, i := range []int{sampleAssist, sampleDedicated, samplePause} {
		now.collecting += p.samples[i].Value.Float64()
	}
	return now
}

// adjust adapts the headroom to what collecting has cost since the last look, and
// the collector to what is live.
func (p *gcPacer) adjust() {
	now := p.readCPU()
	p.doublings = nextDoublings(p.doublings, now.collecting-p.last.collecting, now.application-p.last.application)
	if p.idle() {
		p.doublings = 0
	}
	p.last = now
	p.setPercent()
}

// nextDoublings returns how often the headroom is doubled after a time in which collecting
// and everything else took so much CPU.
func nextDoublings(wider int, collecting, living float64) int {
	switch share := collecting / max(collecting+living, 1e-9); {
	case share > busyCollectorShare:
		return min(wider+1, maxDoublings)
	case share < idleCollectorShare:
		return max(wider-1, 0)
	}
	return wider
}

func (p *gcPacer) setPercent() {
	live := p.samples[sampleGCLive].Value.Uint64()
	walked := p.samples[sampleScannable].Value.Uint64()
	headroom := headroomFor(live, walked, p.samples[sampleStacks].Value.Uint64(), p.maxHeadroom, p.doublings)
	percent := int(max(minGCPercent, min(maxGCPercent, 100*headroom/max(live, 1))))
	// Telling the collector stops the world.
	if off := percent - p.percent; max(off, -off) > p.percent/gcPercentTolerance {
		p.percent = percent
		setGCPercent(percent)
	}
}

// headroomFor returns how far a heap may grow. The stacks of thousands of watches are
// walked through like what is in it.
func headroomFor(live, walked, stacks, most uint64, wider int) uint64 {
	if live <= largeHeap {
		return max(smallHeapHeadroom, min(smallHeapHeadroom<<min(wider, 1), most, maxSmallHeap-live))
	}
	least := max(minLargeHeapHeadroom, min(walked+stacks, most))
	return max(least, min(minLargeHeapHeadroom<<wider, most, scannedHalves*walked/2))
}

// setGCPercent sets the collector, unless the operator chose with GOGC.
func setGCPercent(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
