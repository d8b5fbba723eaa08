package replay

import (
	"context"
	"sync"
	"sync/atomic"
)

// state is what an instance knows of the server, by the number of the collection.
type state map[uint32]*collection

// collection is what an instance knows of the objects that it lists and watches.
type collection struct {
	// last is closed when the turn of the newest request ends: of a LIST when it was answered,
	// of a watch when it was sent.
	last <-chan struct{}
	// token is the continue token of the next page. Only the request whose turn it is may read
	// and write it.
	token string
	// revision is the resource version of the last LIST or event, 0 if there was none.
	revision atomic.Uint64
}

// turn is the place of a request in the order of its collection. A page needs the token of the page
// before, and a watch needs the resource version of the LIST before. Writes of one object have
// turns, too, because each needs the resource version after the write before.
type turn struct {
	collection *collection // nil for writes and GETs
	// before is closed when the turn of the request before ends. It is nil for the first request.
	before <-chan struct{}
	end    func() // may be called more than once
}

// nextTurn returns the next turn in the order of a request's collection or object. The caller must
// call it for the requests in their order, from one goroutine.
func (p *player) nextTurn(r *request) turn {
	t := &p.plan.targets[r.target]
	done := make(chan struct{})
	end := sync.OnceFunc(func() { close(done) })
	switch {
	case t.object != nil && t.object.name != "":
		path := t.object.path()
		now := turn{before: p.written[path], end: end}
		p.written[path] = done
		return now
	case t.shape.Verb != "list" && t.shape.Verb != "watch":
		return turn{end: func() {}}
	}
	s := p.states[r.instance]
	if s == nil {
		s = state{}
		p.states[r.instance] = s
	}
	c := s[t.collection]
	if c == nil {
		c = &collection{}
		s[t.collection] = c
	}
	now := turn{collection: c, before: c.last, end: end}
	c.last = done
	return now
}

// wait waits until the turn before has ended, or ctx has.
func (t *turn) wait(ctx context.Context) {
	if t.before == nil {
		return // the first request
	}
	select {
	case <-t.before:
	case <-ctx.Done():
	}
}
