package server

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// pacer sets how far the heap may grow before it is collected.
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
type pacer struct {
	// idle reports whether the server works ahead of requests.
	idle    func() bool
	samples []metrics.Sample
	// most is the greatest headroom of a heap that is given more, in bytes.
	most uint64
	// wider is how often the headroom is doubled now, that of a small heap once at most.
	wider int
	// percent is what the collector was last told.
	percent int
	last    paced
}

// paced is what the process has spent, in CPU seconds, up to the last collection.
type paced struct{ collecting, living float64 }

const (
	pacePeriod = time.Second
	// Headroom in bytes: of a heap below gcLarge, and of a larger one.
	gcHeadroom = 128 << 20
	gcLarge    = 256 << 20
	// gcTop is what a small heap grows to at most by a headroom that is doubled. The
	// runtime keeps its accounts of the largest heap that there was, 1/40 of it, for good.
	gcTop           = 320 << 20
	gcLargeHeadroom = 48 << 20
	// In percent of what is live.
	gcLeast = 10
	gcMost  = 150
	// gcSlack is the part by which the percentage may be off.
	gcSlack = 8
	// Both are doubled while the collector has more than gcBusy of the CPU, up to
	// gcWidest times for a large heap, and halved again below gcIdle. The most is a share of the memory,
	// and gcWalked halves of what a collection walks through.
	gcBusy, gcIdle = 0.2, 0.07
	gcWidest       = 3
	gcMostShare    = 48
	gcMostHeadroom = 384 << 20
	gcWalked       = 3
)

// gcLoading is the percentage while everything is read from etcd: garbage of
// decoded objects comes faster than ever after, and is given back at once.
const gcLoading = 100

const (
	sampleMarked = iota
	sampleAssist
	sampleDedicated
	samplePause
	sampleUser
	sampleWalked
	sampleStacks
)

func newPacer(idle func() bool) pacer {
	p := pacer{
		idle: idle,
		// Kubernetes' own informers decode much while a server starts.
		wider: gcWidest,
		most:  uint64(min(memory()/gcMostShare, gcMostHeadroom)),
		samples: []metrics.Sample{
			sampleMarked:    {Name: "/gc/heap/live:bytes"},
			sampleAssist:    {Name: "/cpu/classes/gc/mark/assist:cpu-seconds"},
			sampleDedicated: {Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"},
			samplePause:     {Name: "/cpu/classes/gc/pause:cpu-seconds"},
			sampleUser:      {Name: "/cpu/classes/user:cpu-seconds"},
			sampleWalked:    {Name: "/gc/scan/heap:bytes"},
			sampleStacks:    {Name: "/gc/scan/stack:bytes"},
		},
	}
	p.last = p.read()
	p.tune()
	return p
}

func (p *pacer) read() paced {
	metrics.Read(p.samples)
	now := paced{living: p.samples[sampleUser].Value.Float64()}
	for _, i := range []int{sampleAssist, sampleDedicated, samplePause} {
		now.collecting += p.samples[i].Value.Float64()
	}
	return now
}

// look adapts the headroom to what collecting has cost since the last look, and
// the collector to what is live.
func (p *pacer) look() {
	now := p.read()
	p.wider = widen(p.wider, now.collecting-p.last.collecting, now.living-p.last.living)
	if p.idle() {
		p.wider = 0
	}
	p.last = now
	p.tune()
}

// widen returns how often the headroom is doubled after a time in which collecting
// and everything else took so much CPU.
func widen(wider int, collecting, living float64) int {
	switch share := collecting / max(collecting+living, 1e-9); {
	case share > gcBusy:
		return min(wider+1, gcWidest)
	case share < gcIdle:
		return max(wider-1, 0)
	}
	return wider
}

func (p *pacer) tune() {
	live := p.samples[sampleMarked].Value.Uint64()
	walked := p.samples[sampleWalked].Value.Uint64()
	headroom := roomFor(live, walked, p.samples[sampleStacks].Value.Uint64(), p.most, p.wider)
	percent := int(max(gcLeast, min(gcMost, 100*headroom/max(live, 1))))
	// Telling the collector stops the world.
	if off := percent - p.percent; max(off, -off) > p.percent/gcSlack {
		p.percent = percent
		setGC(percent)
	}
}

// roomFor returns how far a heap may grow. The stacks of thousands of watches are
// walked through like what is in it.
func roomFor(live, walked, stacks, most uint64, wider int) uint64 {
	if live <= gcLarge {
		return max(gcHeadroom, min(gcHeadroom<<min(wider, 1), most, gcTop-live))
	}
	least := max(gcLargeHeadroom, min(walked+stacks, most))
	return max(least, min(gcLargeHeadroom<<wider, most, gcWalked*walked/2))
}

// setGC sets the collector, unless the operator chose with GOGC.
func setGC(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
