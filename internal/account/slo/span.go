package slo

import (
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// The stages of a span, in order. serverreport.StageEtcd is before the span.
const (
	decodeIndex = iota
	dispatchIndex
	encodeIndex
	clientIndex
	connectionIndex
	spanStageCount
)

// lateStage is the longest stage of late spans. It is noStage for spans that met the objective.
type lateStage uint16

const noStage lateStage = 0

// lateStageOf returns the lateStage for the index of a stage.
func lateStageOf(index int) lateStage { return 1 + lateStage(index) }

// index returns the index of the stage, which must not be noStage.
func (s lateStage) index() int { return int(s) - 1 }

var stageNames = [spanStageCount]serverreport.Stage{serverreport.StageDecode, serverreport.StageDispatch, serverreport.StageEncode, serverreport.StageClient, serverreport.StageConnection}

// spanRun is successive deliveries with the same span: a run as in run-length encoding.
type spanRun struct {
	// span is the length of the span. end is an offset from Watches.startedAt.
	span, end time.Duration
	stages    [spanStageCount]time.Duration
	// bucket is the sketch's bucket of span.
	bucket int
	// stageBuckets are the buckets of stages.
	stageBuckets [spanStageCount]int
	// k8sDispatch has the stages of Kubernetes' histogram.
	k8sDispatch [k8sDispatchStageCount]time.Duration
	// lateStage is the longest stage of a late span.
	lateStage lateStage
	count     uint32
	bytes     uint64
}

// sameSpan reports whether two deliveries of a resource have the same span. Watches that get an
// event from the same write do, unless their clients' flow-control windows stalled.
func (d *delivery) sameSpan(o *delivery) bool {
	return d.arrival == o.arrival && d.ended == o.ended && d.fillBegan == o.fillBegan && d.stalled == 0 && o.stalled == 0
}

// measure makes run an empty run with the span of a delivery, divided into stages:
//
//	entered ──decode── cached ──wait── fillBegan ──encode── encoded ──wait── began ──write── ended
//
// Between cached and fillBegan, events wait for the writer. The writer has not come to
// them (dispatch), is writing (connection), or must not send (client). Between encoded and
// began there is no wait, unless the events did not fit into the first write. Then they wait for
// the last write that carries them, for the same three reasons.
//
// A wait is divided in proportion. From busySince to began the connection always had something
// to write, and a part of that time, writing, went into writes. From stalledSince to ended the
// stream always had something to send, and during a part of that time, stalled, its flow-control
// windows were closed. So two numbers for each connection and two for each stream are enough,
// however long their past.
func (run *spanRun) measure(d *delivery, r *resourceAccount) {
	entered, cached := d.arrival.Entered.Sub(r.set.startedAt), d.arrival.Cached.Sub(r.set.startedAt)
	*run = spanRun{span: d.ended - entered, end: d.ended}
	// Events that became visible while the writer filled its buffer did not wait.
	fillBegan := max(d.fillBegan, cached)
	encoded := max(d.encoded, fillBegan)
	began := max(encoded, d.began)
	run.stages[decodeIndex] = cached - entered
	run.stages[encodeIndex] = encoded - fillBegan
	run.splitWait(cached, fillBegan, d)
	run.splitWait(encoded, began, d)
	run.stages[connectionIndex] += d.ended - began
	run.bucket = bucket(run.span)
	run.k8sDispatch = [k8sDispatchStageCount]time.Duration{
		k8sTotalIndex: fillBegan - entered, k8sStorageToCacheIndex: cached - entered, k8sCacheToWatcherIndex: fillBegan - cached,
	}
	longest := 0
	for i, t := range run.stages {
		run.stageBuckets[i] = bucket(t)
		if t > run.stages[longest] {
			longest = i
		}
	}
	if run.span > r.objective {
		run.lateStage = lateStageOf(longest)
	}
}

// splitWait adds a wait to the stages client, connection and dispatch.
func (run *spanRun) splitWait(from, to time.Duration, d *delivery) {
	wait := to - from
	if wait <= 0 {
		return
	}
	if d.stalled > 0 {
		t := proportion(to-max(from, d.stalledSince), d.stalled, d.ended-d.stalledSince)
		run.stages[clientIndex] += t
		wait -= t
	}
	t := min(wait, proportion(to-max(from, d.busySince), d.writing, d.began-d.busySince))
	run.stages[connectionIndex] += t
	run.stages[dispatchIndex] += wait - t
}

// proportion returns wait * part / whole, between 0 and wait.
func proportion(wait, part, whole time.Duration) time.Duration {
	if wait <= 0 || whole <= 0 {
		return 0
	}
	return min(wait, time.Duration(float64(wait)*float64(part)/float64(whole)))
}
