package slo

import (
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

const (
	// Late events are late because of their size if their mean size reaches largeEvent bytes,
	// and largeRatio times the mean size of events in time.
	largeEvent = 256 << 10
	largeRatio = 4

	// Spans are late for lack of CPU if the p99 of waits for a processor reaches minStarved,
	// and starvedShare of the spans' p99. Waits for the connection are long for other reasons
	// too. Where they are the longest stage, starvedWriteShare replaces starvedShare.
	minStarved        = 20 * time.Millisecond
	starvedShare      = 0.25
	starvedWriteShare = 0.5
)

// cause returns why the slowest 1 % of the spans took long, or "" without spans. shares are from
// minuteSums.shares.
func (sums *minuteSums) cause(shares *[spanStageCount]float64, p *serverreport.Process) serverreport.Cause {
	if sums.spans.count == 0 {
		return ""
	}
	longest := 0
	for i, s := range shares {
		if s > shares[longest] {
			longest = i
		}
	}
	if longest != clientIndex && sums.lateAreLarge() {
		return serverreport.CauseSize
	}
	return causeOf(p, longest, sums.spans.quantiles().P99)
}

// lateAreLarge reports whether late events are so much larger than the others that
// their size explains why they are late.
func (sums *minuteSums) lateAreLarge() bool {
	if sums.late == 0 {
		return false
	}
	late := float64(sums.lateBytes) / float64(sums.late)
	if late < largeEvent {
		return false
	}
	inTime := sums.spans.count - sums.late
	return inTime == 0 || late >= largeRatio*float64(sums.bytes-sums.lateBytes)/float64(inTime)
}

// processorWait returns how long goroutines wait for a processor (p99), in seconds. Delay has
// such waits too, because a timer fires late if there is no processor for it.
func processorWait(p *serverreport.Process) float64 { return max(p.Delay.P99, p.Scheduling.P99) }

// causeOf returns what spans waited for, given their longest stage and their p99 in
// seconds. A process that gets no processor is late in each stage but the client's, so
// lack of CPU overrides the stage.
func causeOf(p *serverreport.Process, longest int, p99 float64) serverreport.Cause {
	share := starvedShare
	if longest == connectionIndex {
		share = starvedWriteShare
	}
	if longest != clientIndex && processorWait(p) >= max(minStarved.Seconds(), share*p99) {
		return serverreport.CauseCPU
	}
	return serverreport.Cause(stageNames[longest])
}
