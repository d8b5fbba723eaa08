package slo

import (
	"time"

	"github.com/millrace/millrace/internal/report"
)

// The stages of a span, in its order. StageEtcd comes before.
const (
	inDecode = iota
	inDispatch
	inEncode
	inClient
	inConnection
	spanStages
)

var stageNames = [spanStages]report.Stage{report.StageDecode, report.StageDispatch, report.StageEncode, report.StageClient, report.StageConnection}

// run is how often events with the same span were delivered.
type run struct {
	span, since time.Duration
	stages      [spanStages]time.Duration
	// at and buckets are where these times are counted.
	at      int
	buckets [spanStages]int
	// late is the stage that it spent most time in, behind one for spans in time.
	late  uint16
	count uint32
	bytes uint64
}

// same says whether events have the same span: watches that are sent an event by the
// same write share it, unless their clients' windows were shut.
func (d *delivery) same(o *delivery) bool {
	return d.arrival == o.arrival && d.ended == o.ended && d.taken == o.taken && d.shut == 0 && o.shut == 0
}

// set divides a span.
//
//	entered ──decode── cached ──wait── taken ──encode── encoded ──rest── ended
//
// An event waits to be taken because the writer has not come to it (dispatch), is
// writing (connection), or may not send to the client (client); the rest is the last
// write, and for what does not fit in one, waits of the same kinds before it. How much of a
// wait was what is told by the part that it has in the time since which the
// connection, or the stream, has not come to rest: that takes two numbers for a
// connection and two for a stream, whatever their past.
func (x *run) set(d *delivery, r *resourceAccount) {
	entered, cached := d.arrival.Entered.Sub(r.set.began), d.arrival.Cached.Sub(r.set.began)
	*x = run{span: d.ended - entered, since: d.ended}
	// What came while the writer gathered was taken at once.
	taken := max(d.taken, cached)
	encoded := max(d.encoded, taken)
	began := max(encoded, d.began)
	x.stages[inDecode] = cached - entered
	x.stages[inEncode] = encoded - taken
	x.divide(cached, taken, d)
	x.divide(encoded, began, d)
	x.stages[inConnection] += d.ended - began
	x.at = bucket(x.span)
	longest := 0
	for i, t := range x.stages {
		x.buckets[i] = bucket(t)
		if t > x.stages[longest] {
			longest = i
		}
	}
	if x.span > r.objective {
		x.late = 1 + uint16(longest)
	}
}

// divide divides a wait.
func (x *run) divide(from, to time.Duration, d *delivery) {
	wait := to - from
	if wait <= 0 {
		return
	}
	if d.shut > 0 {
		t := share(to-max(from, d.held), d.shut, d.ended-d.held)
		x.stages[inClient] += t
		wait -= t
	}
	t := min(wait, share(to-max(from, d.busy), d.writing, d.began-d.busy))
	x.stages[inConnection] += t
	x.stages[inDispatch] += wait - t
}

// share is the part of a wait that is part of whole.
func share(wait, part, whole time.Duration) time.Duration {
	if wait <= 0 || whole <= 0 {
		return 0
	}
	return min(wait, time.Duration(float64(wait)*float64(part)/float64(whole)))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
