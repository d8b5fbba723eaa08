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
// for what nobody waits for.
type pacer struct {
	// idle reports whether the server works ahead of requests.
	idle    func() bool
	samples []metrics.Sample
	// most is the greatest headroom of a large heap, headroom the one now, in bytes.
	most, headroom uint64
	// percent is what the collector was last told.
	percent int
	last    paced
}

// paced is what the process has spent, in CPU seconds, up to a collection.
type paced struct {
	cycles             uint64
	collecting, living float64
}

const (
	pacePeriod = time.Second
	// Headroom in bytes: of a heap below gcLarge, and of a larger one.
	gcHeadroom      = 192 << 20
	gcLarge         = 256 << 20
	gcLargeHeadroom = 64 << 20
	// In percent of what is live.
	gcLeast = 10
	gcMost  = 150
	// gcSlack is the part by which the percentage may be off.
	gcSlack = 8
	// The headroom of a large heap is doubled while the collector has more than
	// gcBusy of the CPU, and halved below gcIdle, up to a share of the memory.
	gcBusy, gcIdle = 0.25, 0.08
	gcMostShare    = 48
	gcMostHeadroom = 384 << 20
)

// gcLoading is the percentage while everything is read from etcd: garbage of
// decoded objects comes faster than ever after, and is given back at once.
const gcLoading = 300

const (
	sampleMarked = iota
	samplePacedCycles
	sampleAssist
	sampleDedicated
	samplePause
	sampleUser
)

func newPacer(idle func() bool) pacer {
	p := pacer{
		idle:     idle,
		headroom: gcLargeHeadroom,
		most:     uint64(max(gcLargeHeadroom, min(memory()/gcMostShare, gcMostHeadroom))),
		samples: []metrics.Sample{
			sampleMarked:      {Name: "/gc/heap/live:bytes"},
			samplePacedCycles: {Name: "/gc/cycles/total:gc-cycles"},
			sampleAssist:      {Name: "/cpu/classes/gc/mark/assist:cpu-seconds"},
			sampleDedicated:   {Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"},
			samplePause:       {Name: "/cpu/classes/gc/pause:cpu-seconds"},
			sampleUser:        {Name: "/cpu/classes/user:cpu-seconds"},
		},
	}
	p.last = p.read()
	p.tune()
	return p
}

func (p *pacer) read() paced {
	metrics.Read(p.samples)
	now := paced{cycles: p.samples[samplePacedCycles].Value.Uint64(), living: p.samples[sampleUser].Value.Float64()}
	for _, i := range []int{sampleAssist, sampleDedicated, samplePause} {
		now.collecting += p.samples[i].Value.Float64()
	}
	return now
}

// look adapts the headroom to what collecting has cost since the last look, and
// the collector to what is live.
func (p *pacer) look() {
	now := p.read()
	if now.cycles != p.last.cycles {
		most := p.most
		if p.idle() {
			most = gcLargeHeadroom
		}
		p.headroom = paceHeadroom(p.headroom, most, now.collecting-p.last.collecting, now.living-p.last.living)
		p.last = now
	}
	p.tune()
}

// paceHeadroom is the headroom after a time in which collecting and everything else
// took so much CPU.
func paceHeadroom(now, most uint64, collecting, living float64) uint64 {
	switch share := collecting / max(collecting+living, 1e-9); {
	case share > gcBusy:
		return min(2*now, most)
	case share < gcIdle:
		return max(now/2, gcLargeHeadroom)
	}
	return now
}

// rest returns to the least headroom.
func (p *pacer) rest() {
	p.headroom = gcLargeHeadroom
	p.tune()
}

func (p *pacer) tune() {
	live := p.samples[sampleMarked].Value.Uint64()
	headroom := uint64(gcHeadroom)
	if live > gcLarge {
		headroom = p.headroom
	}
	percent := int(max(gcLeast, min(gcMost, 100*headroom/max(live, 1))))
	// Telling the collector stops the world.
	if off := percent - p.percent; max(off, -off) > p.percent/gcSlack {
		p.percent = percent
		setGC(percent)
	}
}

// setGC sets the collector, unless the operator chose with GOGC.
func setGC(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
