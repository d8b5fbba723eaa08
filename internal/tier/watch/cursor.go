package watch

import (
	"sync"
	"sync/atomic"

	cachermetrics "k8s.io/apiserver/pkg/storage/cacher/metrics"

	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/encode"
)

// Cursor is the place of one watch among the events that it selects. One goroutine at a
// time may use it; Behind is for any.
//
//	          Open: older than the subscription
//	                  │
//	                  ▼
//	           catching up ──log read up to the subscription──► following ──► lost
//	                  │                                             ▲
//	Open: as new ─────┼─────────────────────────────────────────────┘
//	                  └──the log has dropped the next event──► lost
//
// A cursor that catches up reads every event of the log and classifies it by itself. One
// that follows reads the matches of its subscription, which were classified once for all
// of its watches.
type Cursor struct {
	hub  *Hub
	sub  *subscription
	wake func()
	// after is a revision: events up to it are left out.
	after int64
	// catchUpAt is the next position while the watch catches up, a cache.Position. Once it
	// has reached sub.from, the cursor follows.
	catchUpAt atomic.Int64
	// next is the number of the subscription's matches that the cursor has passed,
	// counted from the first match that ever was. Hub.mu guards it.
	next int64
	// returned is the number of changes that Next has returned, and of matches that it has
	// left out because of after. Hub.mu guards it.
	returned int64
	// waitingIndex is the cursor's index in sub.waiting, or notWaiting. Hub.mu guards
	// it.
	waitingIndex int
}

const notWaiting = -1

// Open begins a watch of the events with a revision above after. After a Next that left
// nothing, wake is called once, when there is something to read or the place is lost. wake
// must not block. The goroutine that writes the log calls it, with no lock of the hub.
//
// The error is cache.ErrExpired if the log does not reach back to the revision. It is
// ErrOpaque if the resource had an opaque event since, in whatever scope.
func (h *Hub) Open(s Filter, after int64, wake func()) (*Cursor, error) {
	at, _, err := h.log.Since(after)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if at < h.mu.opaqueEnd {
		return nil, ErrOpaque
	}
	id := s.identity()
	sub := h.mu.subscriptions[id]
	if sub == nil {
		sub = &subscription{Filter: s, id: id, from: h.mu.end}
		h.mu.subscriptions[id] = sub
		h.mu.index.add(sub)
	}
	sub.cursors++
	c := &Cursor{hub: h, sub: sub, wake: wake, after: after, waitingIndex: notWaiting}
	c.catchUpAt.Store(int64(at))
	if at >= sub.from {
		c.next = sub.dropped + int64(sub.firstAt(at))
	}
	if s.Shard != nil {
		cachermetrics.RecordShardedWatchStarted(h.resource)
	}
	return c, nil
}

// Close ends the watch. A wake that has been decided on may still be called.
func (c *Cursor) Close() {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	s := c.sub
	if i := c.waitingIndex; i != notWaiting && !s.lost {
		last := len(s.waiting) - 1
		s.waiting[i] = s.waiting[last]
		s.waiting[i].waitingIndex = i
		s.waiting[last] = nil
		s.waiting = s.waiting[:last]
		c.waitingIndex = notWaiting
	}
	if s.cursors--; s.cursors == 0 && !s.lost {
		delete(h.mu.subscriptions, s.id)
		h.mu.index.remove(s)
	}
	if s.Shard != nil {
		cachermetrics.RecordShardedWatchStopped(h.resource)
	}
}

func (c *Cursor) catchUpPosition() cache.Position { return cache.Position(c.catchUpAt.Load()) }

// batch is the largest number of events that one Next looks at.
const batch = 64

// scratch is the working memory of one Next. It is pooled, so that idle cursors hold
// none.
type scratch struct {
	events    [batch]cache.Event
	matches   [batch]match
	positions [batch]cache.Position
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// Next appends the next changes to changes. If more is true, the caller should call Next
// again immediately. Otherwise, if there is no error, the watch has seen everything, and wake
// is called at the next change. The error is cache.ErrExpired if the place is lost, or
// ErrOpaque. Changes that were appended before an error are valid.
func (c *Cursor) Next(changes []encode.Change) (_ []encode.Change, more bool, err error) {
	work := scratches.Get().(*scratch)
	defer scratches.Put(work)
	var found []match
	before, catchesUp := len(changes), c.catchUpPosition() < c.sub.from
	if catchesUp {
		found, err = c.readCatchUp(work)
		more = true
	} else {
		found, more, err = c.readMatches(work)
	}
	for i, m := range found {
		if m.class == opaque {
			err = ErrOpaque
			break
		}
		if e := &work.events[i]; e.Revision > c.after {
			changes = append(changes, change(e, m.class))
		}
	}
	clear(work.events[:len(found)])
	if catchesUp {
		c.addReturned(len(changes) - before)
	}
	return changes, more && err == nil, err
}

// change returns an event as a watch shows it. An event of the class deleted shows the
// object's previous version.
func change(e *cache.Event, class eventClass) encode.Change {
	shown := e.Entry
	if class == deleted {
		shown = e.Previous
	}
	return encode.Change{Frames: e.Frames, Kind: class.eventType(), Entry: shown, Revision: e.Revision, Arrival: e.Arrival}
}

// readCatchUp reads the next events from before the subscription's begin. It leaves in
// work.events the events of the matches that it returns.
func (c *Cursor) readCatchUp(work *scratch) ([]match, error) {
	position := c.catchUpPosition()
	limit := min(batch, int(c.sub.from-position))
	n, next, _, err := c.hub.log.Read(position, work.events[:limit])
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, cache.ErrExpired // the log was reset
	}
	found := work.matches[:0]
	for i := range work.events[:n] {
		e, at := &work.events[i], position+cache.Position(i)
		class := opaque
		if !isOpaque(e) {
			class = c.sub.classify(e)
		} else if !c.sub.Holds(e.Key()) {
			class = unrelated
		}
		if class != unrelated {
			work.events[len(found)] = *e
			found = append(found, match{at, class})
		}
	}
	clear(work.events[len(found):n])
	c.catchUpAt.Store(int64(next))
	return found, nil
}

// readMatches reads the next matches of the subscription and leaves their events in
// work.events. If more is false, the cursor waits to be woken.
func (c *Cursor) readMatches(work *scratch) (found []match, more bool, err error) {
	if found, more, err = c.takeMatches(work.matches[:0]); err != nil || len(found) == 0 {
		return nil, false, err
	}
	for i, m := range found {
		work.positions[i] = m.at
	}
	if err := c.hub.log.Get(work.positions[:len(found)], work.events[:]); err != nil {
		return nil, false, err
	}
	return found, more, nil
}

// takeMatches appends the next matches to found and passes them. If there are no more, it adds
// the cursor to the waiting ones.
func (c *Cursor) takeMatches(found []match) (_ []match, more bool, err error) {
	h, s := c.hub, c.sub
	h.mu.Lock()
	defer h.mu.Unlock()
	at := c.next - s.dropped
	if s.lost || at < 0 {
		return nil, false, cache.ErrExpired
	}
	found = append(found, s.matches[at:min(int64(len(s.matches)), at+batch)]...)
	c.next += int64(len(found))
	c.returned += int64(len(found))
	if more = c.next-s.dropped < int64(len(s.matches)); !more && c.waitingIndex == notWaiting {
		c.waitingIndex = len(s.waiting)
		s.waiting = append(s.waiting, c)
	}
	return found, more, nil
}
