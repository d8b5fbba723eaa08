package read

import (
	"github.com/millrace/millrace/internal/account/slo"
	"github.com/millrace/millrace/internal/conn/pull"
	"github.com/millrace/millrace/internal/tier/watch"
	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
)

// openAccount opens the account of a watch whose cursor is open, if accounts are kept.
func (s *watchSession) openAccount(filter *watch.Filter) {
	q := s.query
	if q.route.cfg.Shared.Accounts == nil {
		return
	}
	info := slo.WatchInfo{
		Resource: q.route.cfg.Resource.GroupResource().String(),
		Client:   clientOf(s.req),
		Address:  s.req.RemoteAddr, Protocol: s.req.Proto,
		Selection: filter.String(), Encoding: q.routeForm.names[encodingIndex(q.encoding)],
		Backlog: s.cursor, History: q.route.cfg.Objects.Resource().Log(), Transport: s.puller,
	}
	s.account = q.route.cfg.Shared.Accounts.Open(info)
}

// eachArrival calls use with each arrival, and with the number of neighbouring changes
// that share it.
func eachArrival(changes []encode.Change, use func(a *entry.Arrival, n int)) {
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && changes[n].Arrival == changes[0].Arrival {
			n++
		}
		use(changes[0].Arrival, n)
		changes = changes[n:]
	}
}

// accountedSource is a watchSource with an account. The connection tells it when its bytes are
// written.
type accountedSource struct {
	// sendAccount stands first, so that it begins a cache line of the processor.
	sendAccount slo.SendAccount
	watchSource
}

var _ pull.Receiver = (*accountedSource)(nil)

// Next implements pull.Source.
func (p *accountedSource) Next(segments [][]byte, room int) (_ [][]byte, more bool, err error) {
	p.sendAccount.TouchCacheLine()
	return p.watchSource.Next(segments, room)
}

// Placed implements pull.Receiver.
func (p *accountedSource) Placed(w *pull.Write, bytes int, shut *pull.WindowStall) {
	p.sendAccount.Placed((*slo.Write)(w), bytes, (*slo.WindowStall)(shut))
}

// Written implements pull.Receiver.
func (p *accountedSource) Written(w *pull.Write) { (*slo.Write)(w).Written() }

// queueGiven tells the account which changes are in segments, which the next write carries.
// There is one segment for each change, and before them one with the header of gzip if the
// stream begins.
func (p *watchSource) queueGiven(given []encode.Change, segments [][]byte) {
	switch {
	case p.sendAccount == nil || len(given) == 0:
		return
	case len(given) == 1:
		p.sendAccount.Queue(given[0].Arrival, 1, totalBytes(segments))
		return
	}
	header := len(segments) - len(given)
	bytes := totalBytes(segments[:header])
	segments = segments[header:]
	eachArrival(given, func(arrival *entry.Arrival, n int) {
		p.sendAccount.Queue(arrival, n, bytes+totalBytes(segments[:n]))
		bytes, segments = 0, segments[n:]
	})
}

func totalBytes(segments [][]byte) (n int64) {
	for _, s := range segments {
		n += int64(len(s))
	}
	return n
}
