package slo

import (
	"math"
	"time"

	"github.com/millrace/millrace/internal/report"
)

// gathered is what resources say of the last minute together.
type gathered struct {
	spans            tally
	stages           [spanStages]tally
	parts            [allParts]part64
	bytes, lateBytes uint64
	late             uint64
	lateBy           [spanStages]uint64
	burns            burnSum
	events, total    uint64
}

type part64 struct {
	count  uint64
	stages [spanStages]time.Duration
}

// gather adds up a resource's last minute.
func (r *resourceAccount) gather(g *gathered, since time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settleLocked()
	r.window.each(since, fine, func(s *resourceSlot) {
		g.spans.add(&s.spans)
		for i := range s.stages {
			g.stages[i].add(&s.stages[i])
		}
		for i := range s.parts.list {
			from, to := &s.parts.list[i], &g.parts[s.parts.first+i]
			to.count += uint64(from.count)
			for j, d := range from.stages {
				to.stages[j] += d
			}
		}
		g.bytes += s.bytes
		g.lateBytes += s.lateBytes
		for i, n := range s.lateBy {
			g.lateBy[i] += uint64(n)
			g.late += uint64(n)
		}
	})
	g.burns.add(&r.burn, since)
	g.events += r.events
	g.total += r.bytes
}

func (g *gathered) merge(o *gathered) {
	g.spans.merge(&o.spans)
	for i := range g.stages {
		g.stages[i].merge(&o.stages[i])
		g.lateBy[i] += o.lateBy[i]
	}
	for i := range g.parts {
		g.parts[i].count += o.parts[i].count
		for j, d := range o.parts[i].stages {
			g.parts[i].stages[j] += d
		}
	}
	for i := range g.burns.all {
		g.burns.all[i] += o.burns.all[i]
		g.burns.late[i] += o.burns.late[i]
	}
	g.bytes, g.lateBytes, g.late = g.bytes+o.bytes, g.lateBytes+o.lateBytes, g.late+o.late
	g.events, g.total = g.events+o.events, g.total+o.total
}

func (t *tally) merge(o *tally) {
	for i, n := range o.counts {
		t.counts[i] += n
	}
	t.count += o.count
	t.max = max(t.max, o.max)
}

// shares tell how the time of the slowest hundredth of the spans was spent. Of the
// part that the hundredth begins in it takes as much as it needs.
func (g *gathered) shares() (shares [spanStages]float64) {
	want := math.Ceil(float64(g.spans.count) * budget)
	var all float64
	for i := len(g.parts) - 1; i >= 0 && want > 0; i-- {
		p := &g.parts[i]
		if p.count == 0 {
			continue
		}
		taken := min(want, float64(p.count))
		want -= taken
		for j, d := range p.stages {
			part := float64(d) * taken / float64(p.count)
			shares[j] += part
			all += part
		}
	}
	for j := range shares {
		if all > 0 {
			shares[j] /= all
		}
	}
	return shares
}

const (
	// largeEvent is the mean size from which late events are late for it, if they are
	// largerBy times as large as the others.
	largeEvent = 256 << 10
	largerBy   = 4
	// Processors are short when goroutines wait for one as long, and for starvedPart of
	// what the slowest spans take; starvedWriting of it if those are writing, which
	// takes long for other reasons too.
	starvedFrom    = 20 * time.Millisecond
	starvedPart    = 0.25
	starvedWriting = 0.5
)

// cause is what the slowest hundredth waited for.
func (g *gathered) cause(shares *[spanStages]float64, p *report.Process) report.Cause {
	if g.spans.count == 0 {
		return ""
	}
	longest := 0
	for i, s := range shares {
		if s > shares[longest] {
			longest = i
		}
	}
	if longest != inClient && g.large() {
		return report.CauseSize
	}
	return causeOf(p, longest, g.spans.quantiles().P99)
}

func (g *gathered) large() bool {
	if g.late == 0 {
		return false
	}
	late := float64(g.lateBytes) / float64(g.late)
	if late < largeEvent {
		return false
	}
	inTime := g.spans.count - g.late
	return inTime == 0 || late >= largerBy*float64(g.bytes-g.lateBytes)/float64(inTime)
}

// starved is how long one of a hundred waits for a processor took, in seconds. A
// timer waits as any goroutine does, and for a thread besides.
func starved(p *report.Process) float64 { return max(p.Delay.P99, p.Scheduling.P99) }

// causeOf is what spans waited for whose longest stage is known, and their p99 in
// seconds: a process that does not run is late in what it does, and in the middle of a
// write as well.
func causeOf(p *report.Process, longest int, p99 float64) report.Cause {
	part := starvedPart
	if longest == inConnection {
		part = starvedWriting
	}
	if longest != inClient && starved(p) >= max(starvedFrom.Seconds(), part*p99) {
		return report.CauseCPU
	}
	return report.Cause(stageNames[longest])
}

// report is what an account says of the last minute.
func (g *gathered) report(name string, objective time.Duration, p *report.Process) report.ResourceSLO {
	shares := g.shares()
	told := report.ResourceSLO{
		Resource: name, Objective: objective.Seconds(), Spans: g.spans.quantiles(), Late: g.late,
		Burn: g.burns.burn(), Cause: g.cause(&shares, p), Events: g.events, Bytes: g.total,
		Stages: make([]report.StageTime, 0, spanStages+1),
	}
	told.Met = float64(g.late) <= budget*float64(g.spans.count)
	for i := range g.stages {
		told.Stages = append(told.Stages, report.StageTime{Stage: stageNames[i], Quantiles: g.stages[i].quantiles(), Share: shares[i]})
	}
	return told
}

// withoutClients says whether the objective was met but for events that waited for
// their clients.
func (g *gathered) withoutClients() bool {
	held := g.lateBy[inClient]
	return held > 0 && float64(g.late-held) <= budget*float64(g.spans.count-held)
}
