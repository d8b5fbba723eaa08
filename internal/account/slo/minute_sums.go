package slo

import (
	"math"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// minuteSums adds up the last minute of one resource, or of several. A report creates one for each
// resource, because findings need them, and merges them into the total. Each takes some 60 KB.
type minuteSums struct {
	spans  tally
	stages [spanStageCount]tally
	bands  [bandCount]bandSums
	// bytes counts the bytes of all spans, lateBytes the bytes of late spans.
	bytes, lateBytes uint64
	late             uint64
	// lateBy counts late spans by their longest stage.
	lateBy [spanStageCount]uint64
	burns  burnSum
	// events and totalBytes are since the accounts were made.
	events, totalBytes uint64
}

type bandSums struct {
	count  uint64
	stages [spanStageCount]time.Duration
}

// addMinute adds a resource's last minute to sums, its burn counters, and its totals. offset
// is the present time, as an offset from Watches.startedAt.
func (r *resourceAccount) addMinute(sums *minuteSums, offset time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.countPendingLocked()
	r.mu.lastMinute.eachSlot(offset, fineSlot, func(s *resourceSlot) {
		sums.spans.add(&s.spans)
		for i := range s.stages {
			sums.stages[i].add(&s.stages[i])
		}
		for i := range s.bands.list {
			from, to := &s.bands.list[i], &sums.bands[s.bands.first+i]
			to.count += uint64(from.count)
			for j, d := range from.stages {
				to.stages[j] += d
			}
		}
		sums.bytes += s.bytes
		sums.lateBytes += s.lateBytes
		for i, n := range s.lateBy {
			sums.lateBy[i] += uint64(n)
			sums.late += uint64(n)
		}
	})
	sums.burns.add(&r.mu.burn, offset)
	sums.events += r.mu.events
	sums.totalBytes += r.mu.bytes
}

// merge adds the sums of o.
func (sums *minuteSums) merge(o *minuteSums) {
	sums.spans.merge(&o.spans)
	for i := range sums.stages {
		sums.stages[i].merge(&o.stages[i])
		sums.lateBy[i] += o.lateBy[i]
	}
	for i := range sums.bands {
		sums.bands[i].count += o.bands[i].count
		for j, d := range o.bands[i].stages {
			sums.bands[i].stages[j] += d
		}
	}
	for i := range sums.burns.all {
		sums.burns.all[i] += o.burns.all[i]
		sums.burns.late[i] += o.burns.late[i]
	}
	sums.bytes, sums.lateBytes, sums.late = sums.bytes+o.bytes, sums.lateBytes+o.lateBytes, sums.late+o.late
	sums.events, sums.totalBytes = sums.events+o.events, sums.totalBytes+o.totalBytes
}

// shares returns each stage's share, 0 to 1, of the time of the slowest 1 % of the
// spans. The limit of that 1 % usually falls into a band. That band contributes in proportion.
func (sums *minuteSums) shares() (shares [spanStageCount]float64) {
	missing := math.Ceil(float64(sums.spans.count) * errorBudget)
	var all float64
	for i := len(sums.bands) - 1; i >= 0 && missing > 0; i-- {
		b := &sums.bands[i]
		if b.count == 0 {
			continue
		}
		n := min(missing, float64(b.count))
		missing -= n
		for j, d := range b.stages {
			part := float64(d) * n / float64(b.count)
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

// report makes the row of a report, without serverreport.StageEtcd.
func (sums *minuteSums) report(name string, objective time.Duration, p *serverreport.Process) serverreport.ResourceSLO {
	shares := sums.shares()
	row := serverreport.ResourceSLO{
		Resource: name, ObjectiveSeconds: objective.Seconds(), Spans: sums.spans.quantiles(), Late: sums.late,
		Burn: sums.burns.burn(), Cause: sums.cause(&shares, p), Events: sums.events, Bytes: sums.totalBytes,
		Stages: make([]serverreport.StageTime, 0, spanStageCount+1),
	}
	row.Met = float64(sums.late) <= errorBudget*float64(sums.spans.count)
	for i := range sums.stages {
		row.Stages = append(row.Stages, serverreport.StageTime{Stage: stageNames[i], Quantiles: sums.stages[i].quantiles(), Share: shares[i]})
	}
	return row
}

// metWithoutClients reports whether some late events waited mostly for their clients, and the
// objective is met without these events.
func (sums *minuteSums) metWithoutClients() bool {
	byClients := sums.lateBy[clientIndex]
	return byClients > 0 && float64(sums.late-byClients) <= errorBudget*float64(sums.spans.count-byClients)
}
