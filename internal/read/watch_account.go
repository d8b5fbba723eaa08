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
	s.sender.Watch, s.taken = s.account, time.Now()
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
	s.sender.Sent(&slo.Sent{Bytes: s.bytes, Filled: s.taken, Began: s.began, Ended: ended, Busy: s.busy, Writing: s.wrote, Last: true})
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

// give notes what was encoded for the next write. There is one segment for each
// change, and a first one with the header of gzip.
func (p *pulled) give(given []encode.Change, segments [][]byte) {
	if p.sender.Watch == nil || len(given) == 0 {
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

var _ h2.Receiver = (*pulled)(nil)

// Sent implements h2.Receiver.
func (p *pulled) Sent(s *h2.Sent) { p.sender.Sent((*slo.Sent)(s)) }
