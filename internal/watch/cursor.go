package watch

import (
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/encode"
)

// Cursor is one watch's place among the events that it selects. It is used by
// one goroutine at a time.
//
//	          Open: older than the subscription
//	                  │
//	                  ▼
//	             replaying ──log read up to the subscription──► following ──► lost
//	                  │                                             ▲
//	Open: as new ─────┼─────────────────────────────────────────────┘
//	                  └──log has dropped what is next──► lost
type Cursor struct {
	hub  *Hub
	sub  *subscription
	wake func()
	// after is the revision up to which events are left out.
	after int64
	// replay is the place in the log, a cache.Cursor, as long as it is before
	// sub.from. Then next is how many of the subscription's matches are done with;
	// Hub.mu guards it.
	replay atomic.Int64
	next   int64
	// given is how many changes Next has given. Hub.mu guards it.
	given int64
	// waiting is the cursor's place in sub.waiting. Hub.mu guards it.
	waiting int
}

const notWaiting = -1

// Open begins a watch behind a revision. wake is called once after a Next that left
// nothing, when there is something or the place is lost; it must not block. The error is cache.ErrExpired when the log does not go back so far, and
// ErrOpaque.
func (h *Hub) Open(s Selection, after int64, wake func()) (*Cursor, error) {
	at, _, err := h.log.Since(after)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if at < h.mu.odd {
		return nil, ErrOpaque
	}
	id := s.identity()
	sub := h.mu.subscriptions[id]
	if sub == nil {
		sub = &subscription{Selection: s, id: id, from: h.mu.end}
		h.mu.subscriptions[id] = sub
		h.mu.gates.add(sub)
	}
	sub.cursors++
	c := &Cursor{hub: h, sub: sub, wake: wake, after: after, waiting: notWaiting}
	c.replay.Store(int64(at))
	if at >= sub.from {
		c.next = sub.dropped + int64(sub.search(at))
	}
	return c, nil
}

// Close ends the watch. wake may be called once more.
func (c *Cursor) Close() {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	s := c.sub
	if i := c.waiting; i != notWaiting && !s.lost {
		last := len(s.waiting) - 1
		s.waiting[i] = s.waiting[last]
		s.waiting[i].waiting = i
		s.waiting[last] = nil
		s.waiting = s.waiting[:last]
		c.waiting = notWaiting
	}
	if s.cursors--; s.cursors == 0 && !s.lost {
		delete(h.mu.subscriptions, s.id)
		h.mu.gates.remove(s)
	}
}

func (c *Cursor) place() cache.Cursor { return cache.Cursor(c.replay.Load()) }

// batch is how many events are looked at in one step.
const batch = 64

// scratch is what a step needs. Cursors that wait have none.
type scratch struct {
	events [batch]cache.Event
	found  [batch]match
	at     [batch]cache.Cursor
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// Next appends what comes next to changes. With more there is, or may be, more to
// read at once; otherwise the watch has seen everything and asks to be woken. The
// error is cache.ErrExpired when the place is lost, and ErrOpaque; what was appended
// before it is good.
func (c *Cursor) Next(changes []encode.Change) (_ []encode.Change, more bool, err error) {
	x := scratches.Get().(*scratch)
	defer scratches.Put(x)
	var found []match
	before, replays := len(changes), c.place() < c.sub.from
	if replays {
		found, err = c.old(x)
		more = true
	} else {
		found, more, err = c.new(x)
	}
	for i, m := range found {
		if m.what == opaque {
			err = ErrOpaque
			break
		}
		if e := &x.events[i]; e.Revision > c.after {
			changes = append(changes, change(e, m.what))
		}
	}
	clear(x.events[:len(found)])
	if replays {
		c.gave(len(changes) - before)
	}
	return changes, more && err == nil, err
}

// change is an event as a watch shows it: an object that is gone for it has its
// last content.
func change(e *cache.Event, what meaning) encode.Change {
	shown := e.Entry
	if what == deleted {
		shown = e.Previous
	}
	return encode.Change{Frames: e.Frames, Kind: what.kind(), Entry: shown, Revision: e.Revision, Arrival: e.Arrival}
}

// old reads what happened before the subscription began.
func (c *Cursor) old(x *scratch) ([]match, error) {
	place := c.place()
	limit := min(batch, int(c.sub.from-place))
	n, next, _, err := c.hub.log.Read(place, x.events[:limit])
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, cache.ErrExpired // the log was forgotten
	}
	found := x.found[:0]
	for i := range x.events[:n] {
		e, at := &x.events[i], place+cache.Cursor(i)
		what := opaque
		if plain(e) {
			what = c.sub.classify(e)
		} else if !c.sub.Holds(e.Key()) {
			what = nothing
		}
		if what != nothing {
			x.events[len(found)] = *e
			found = append(found, match{at, what})
		}
	}
	clear(x.events[len(found):n])
	c.replay.Store(int64(next))
	return found, nil
}

// new reads what the subscription has. With no more, the cursor waits.
func (c *Cursor) new(x *scratch) (found []match, more bool, err error) {
	if found, more, err = c.take(x.found[:0]); err != nil || len(found) == 0 {
		return nil, false, err
	}
	for i, m := range found {
		x.at[i] = m.at
	}
	if err := c.hub.log.Get(x.at[:len(found)], x.events[:]); err != nil {
		return nil, false, err
	}
	return found, more, nil
}

func (c *Cursor) take(found []match) (_ []match, more bool, err error) {
	h, s := c.hub, c.sub
	h.mu.Lock()
	defer h.mu.Unlock()
	at := c.next - s.dropped
	if s.lost || at < 0 {
		return nil, false, cache.ErrExpired
	}
	found = append(found, s.matches[at:min(int64(len(s.matches)), at+batch)]...)
	c.next += int64(len(found))
	c.given += int64(len(found))
	if more = c.next-s.dropped < int64(len(s.matches)); !more && c.waiting == notWaiting {
		c.waiting = len(s.waiting)
		s.waiting = append(s.waiting, c)
	}
	return found, more, nil
}
