package slo

import "time"

// The stages of a span, in its order. StageEtcd comes before.
const (
	inDecode = iota
	inDispatch
	inEncode
	inClient
	inConnection
	spanStages
)

var stageNames = [spanStages]Stage{StageDecode, StageDispatch, StageEncode, StageClient, StageConnection}

// spent is where the time of one span went. Watches that are sent an event by the
// same write share it, unless their clients' windows were shut.
type spent struct {
	arrival *Arrival
	// ended, taken and held are those of the write and the events.
	ended, taken, held time.Time
	span               time.Duration
	at                 int
	stages             [spanStages]time.Duration
	buckets            [spanStages]int
	longest            int
}

func (x *spent) same(g *given, s *Sent) bool {
	return x.arrival == g.arrival && x.ended == s.Ended && x.taken == g.taken && s.Held.IsZero() && x.held.IsZero()
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
func (x *spent) set(g *given, s *Sent) {
	a := g.arrival
	*x = spent{arrival: a, ended: s.Ended, taken: g.taken, held: s.Held, span: s.Ended.Sub(a.Entered)}
	// What came while the writer gathered was taken at once.
	taken := later(g.taken, a.Cached)
	encoded := later(g.encoded, taken)
	x.stages[inDecode] = a.Cached.Sub(a.Entered)
	x.stages[inEncode] = encoded.Sub(taken)
	x.divide(a.Cached, taken, s)
	x.divide(encoded, later(encoded, s.Began), s)
	x.stages[inConnection] += s.Ended.Sub(later(encoded, s.Began))
	x.at = bucket(x.span)
	for i, d := range x.stages {
		x.buckets[i] = bucket(d)
		if d > x.stages[x.longest] {
			x.longest = i
		}
	}
}

// divide divides a wait.
func (x *spent) divide(from, to time.Time, s *Sent) {
	wait := to.Sub(from)
	if wait <= 0 {
		return
	}
	if !s.Held.IsZero() {
		d := share(to.Sub(later(from, s.Held)), s.Closed, s.Ended.Sub(s.Held))
		x.stages[inClient] += d
		wait -= d
	}
	d := min(wait, share(to.Sub(later(from, s.Busy)), s.Writing, s.Began.Sub(s.Busy)))
	x.stages[inConnection] += d
	x.stages[inDispatch] += wait - d
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
