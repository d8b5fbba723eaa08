package read

import (
	"time"

	"github.com/millrace/millrace/internal/encode"
	"github.com/millrace/millrace/internal/h2"
	"github.com/millrace/millrace/internal/slo"
	"github.com/millrace/millrace/internal/watch"
)

// openAccount begins the account of a watch whose cursor is open.
func (s *watching) openAccount(selection *watch.Selection) {
	q := s.query
	if q.route.cfg.Accounts == nil {
		return
	}
	info := slo.WatchInfo{
		Resource: q.route.cfg.Resource.GroupResource().String(),
		Client:   client(s.req),
		Address:  s.req.RemoteAddr, Protocol: s.req.Proto,
		Selection: selection.String(), Encoding: q.made.encodings[encodingIndex(q.encoding)],
		Place: s.cursor, History: q.route.cfg.Source.Resource().Log(),
	}
	if s.puller != nil {
		info.Transport = s.puller
	}
	s.account = q.route.cfg.Accounts.Open(info)
}

// turn is one write of a watch that writes by itself, and the times of it. Zero
// times are between two.
type turn struct {
	sender       slo.Sender
	taken, began time.Time
	bytes        int
	// busy is since when the watch has not come to rest, wrote how long it was writing
	// in that time.
	busy  time.Time
	wrote time.Duration
}

// startTurn begins a turn with what was taken from the cursor.
func (s *watching) startTurn(changes []encode.Change) {
	if s.account == nil {
		return
	}
	s.taken = time.Now()
	if s.busy.IsZero() {
		s.busy, s.wrote = s.taken, 0
	}
	each(changes, func(a *slo.Arrival, n int) { s.sender.Give(a, n, 0) })
}

// writing notes bytes that are about to be written. What is encoded between two
// writes counts as written: only what is large needs more than one.
func (s *watching) writing(bytes int) {
	if s.began.IsZero() {
		s.began = time.Now()
	}
	s.bytes += bytes
}

// endTurn ends a turn that was flushed.
func (s *watching) endTurn() {
	if s.account == nil {
		return
	}
	ended := time.Now()
	w := slo.Write{Filled: s.taken, Began: s.began, Ended: ended, Busy: s.busy, Writing: s.wrote}
	s.sender.Taken(&w, s.bytes, nil)
	w.Written()
	s.wrote += ended.Sub(s.began)
	s.taken, s.began, s.bytes = time.Time{}, time.Time{}, 0
}

// rest waits for something to do. If that came during the last turn, there is no rest.
func (s *watching) rest() {
	select {
	case <-s.signal.wake:
	default:
		s.busy = time.Time{}
		<-s.signal.wake
	}
}

// each calls use with the arrivals of changes, and how many share each.
func each(changes []encode.Change, use func(a *slo.Arrival, n int)) {
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && changes[n].Arrival == changes[0].Arrival {
			n++
		}
		use(changes[0].Arrival, n)
		changes = changes[n:]
	}
}

// measured is a pulled watch that has an account.
type measured struct {
	// sent begins a line of the processor's caches.
	sent slo.Sender
	pulled
}

var _ h2.Receiver = (*measured)(nil)

// Next implements h2.Source.
func (p *measured) Next(segments [][]byte, room int) (_ [][]byte, more bool, err error) {
	p.sent.Expect()
	return p.pulled.Next(segments, room)
}

// Taken implements h2.Receiver.
func (p *measured) Taken(w *h2.Write, bytes int, shut *h2.Shut) {
	p.sent.Taken((*slo.Write)(w), bytes, (*slo.Shut)(shut))
}

// Written implements h2.Receiver.
func (p *measured) Written(w *h2.Write) { (*slo.Write)(w).Written() }

// give notes what was encoded for the next write. There is one segment for each
// change, and a first one with the header of gzip.
func (p *pulled) give(given []encode.Change, segments [][]byte) {
	switch {
	case p.sender == nil || len(given) == 0:
		return
	case len(given) == 1:
		p.sender.Give(given[0].Arrival, 1, length(segments))
		return
	}
	header := len(segments) - len(given)
	bytes := length(segments[:header])
	segments = segments[header:]
	each(given, func(arrival *slo.Arrival, n int) {
		p.sender.Give(arrival, n, bytes+length(segments[:n]))
		bytes, segments = 0, segments[n:]
	})
}

func length(segments [][]byte) (n int64) {
	for _, s := range segments {
		n += int64(len(s))
	}
	return n
}
