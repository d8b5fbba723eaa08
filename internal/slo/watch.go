package slo

import (
	"sync"
	"sync/atomic"
	"time"
)

// Arrival is when the events of one response of etcd's watch came, and when those
// of one resource among them became visible in its log.
type Arrival struct {
	Entered, Cached time.Time
}

// Sent says that bytes were handed to a connection.
type Sent struct {
	// Bytes is how many bytes of the body were written.
	Bytes int
	// Filled is when the writer began to gather what it wrote, Began and Ended are of
	// the write.
	Filled, Began, Ended time.Time
	// Busy is since when the connection has had something to write without a pause,
	// and Writing how long it was writing in that time, before Began.
	Busy    time.Time
	Writing time.Duration
	// Held is since when the client's windows have not been open wide enough to send
	// everything, zero if they are, and Closed how long they were shut in that time.
	Held   time.Time
	Closed time.Duration
	// Local is what a watch left there the last time for this write, nil at
	// first. Last says that there is no next time.
	Local any
	Last  bool
}

// WatchInfo is what is known of a watch when it begins.
type WatchInfo struct {
	// Resource is as in "pods" or "deployments.apps".
	Resource  string
	Client    Client
	Address   string
	Protocol  string
	Selection string
	Encoding  string
	// Place is the watch's among the events that it selects, History what the
	// resource remembers.
	Place   Place
	History History
	// Transport may be nil.
	Transport Transport
}

// Place tells how far behind a watch is. Any goroutine may ask it.
type Place interface {
	// Behind is how many events the watch was not sent, about how many bytes they have,
	// and when the first of them became visible, if so many were sent since it began.
	Behind(sent uint64) (events, bytes int64, oldest time.Time)
}

// History tells what a resource's log holds. Any goroutine may ask it.
type History interface {
	Held() (events int, bytes int64, oldest time.Time)
}

// Transport tells what keeps a watch from sending. Any goroutine may ask it.
type Transport interface {
	// Waits says since when the client's window has been shut, and since when a write
	// has been going on; zero if that is not so.
	Waits() (window, write time.Time)
}

// Watch is the account of one watch.
//
// A thousand watches that are sent an event find nothing of theirs in the
// processor's caches, so what an event touches is in the first lines of 64 bytes.
type Watch struct {
	mu sync.Mutex
	// events and bytes were delivered, sent of the events behind the initial ones.
	events, sent, bytes uint64
	resource            *resourceAccount
	// began is since the set's beginning, as is recentEnd.
	began     time.Duration
	recentEnd time.Duration
	// recent are spans that client and subscription were not told yet, used of them,
	// all from before recentEnd. recentMax is the longest.
	used      uint32
	following atomic.Bool

	closed    atomic.Bool
	recentMax time.Duration
	recent    [14]recent

	// told is what client and subscription know.
	toldEvents, toldBytes uint64
	subscription          *subscriptionAccount
	client                *clientAccount
	set                   *Watches
	id                    uint64
	WatchInfo
}

// recent is a span that was not told yet.
type recent struct {
	at uint16
	// late is the stage that it spent most time in, behind one for spans in time.
	late  uint16
	count uint32
}

// given are events of one arrival that were encoded at once.
type given struct {
	arrival *Arrival
	count   uint32
	// stamped says that taken and encoded are known: from the first write behind it.
	stamped bool
	// start and end are its place in the bytes that the watch was given.
	start, end     int64
	taken, encoded time.Time
}

// Sender is what the sender of a watch knows of what it sends. Give and Sent are
// called by one goroutine at a time. Without a watch it keeps nothing.
type Sender struct {
	*Watch
	// last and count are what came last of what the sender took on, more, in order,
	// what came before and is not written yet. owed are all bytes that the sender took
	// on, done those of them that were written.
	last       *Arrival
	count      uint32
	done, owed int64
	more       []given
}

// Give notes that events were taken and encoded, some bytes for the next write.
// They are in order. Without an arrival they have no span. Bytes that are not known
// yet are those of the next Sent.
func (x *Sender) Give(arrival *Arrival, count int, bytes int64) {
	if x.Watch == nil {
		return
	}
	if x.count > 0 && x.last != arrival {
		x.putAside()
	}
	x.last = arrival
	x.count += uint32(count)
	x.owed += bytes
}

// putAside makes room for what is given next.
func (x *Sender) putAside() {
	start := x.done
	if n := len(x.more); n > 0 {
		start = x.more[n-1].end
	}
	x.more = append(x.more, given{arrival: x.last, count: x.count, start: start, end: x.owed})
	x.count = 0
}

// Sent accounts for what was written, with the last watch that the write is told to:
// then the memory of all of them is asked for at once, and waited for once.
func (x *Sender) Sent(s *Sent) {
	if x.Watch == nil {
		return
	}
	b := s.batch()
	b.told = append(b.told, told{x, s.Bytes, s.Held, s.Closed})
	if !s.Last {
		return
	}
	for i := range b.told {
		// Loads wait for nothing, as locks would.
		w := b.told[i].sender.Watch
		w.following.Load()
		w.closed.Load()
	}
	for i := range b.told {
		t := &b.told[i]
		s.Bytes, s.Held, s.Closed = t.bytes, t.held, t.closed
		t.sender.account(s, b)
	}
	s.end(b)
}

// account accounts for what was written.
func (x *Sender) account(s *Sent, b *batch) {
	w := x.Watch
	w.mu.Lock()
	defer w.mu.Unlock()
	b.of(w.resource)
	w.bytes += uint64(s.Bytes)
	b.bytes += uint64(s.Bytes)
	if done := x.done + int64(s.Bytes); len(x.more) == 0 && done >= x.owed {
		g := given{arrival: x.last, count: x.count, start: x.done, end: done, taken: s.Filled, encoded: s.Began}
		x.done, x.owed, x.count = done, done, 0
		w.deliverLocked(&g, s, b)
	} else {
		x.sentPartLocked(s, b)
	}
	if w.closed.Load() {
		w.tellLocked()
	}
}

// keptGiven is how much room a sender keeps for what comes in one buffer.
const keptGiven = 2

// sentPartLocked is Sent when not all that was given was written, or not all of it
// came together.
func (x *Sender) sentPartLocked(s *Sent, b *batch) {
	if x.count > 0 {
		x.putAside()
	}
	x.done += int64(s.Bytes)
	done := 0
	for i := range x.more {
		g := &x.more[i]
		if !g.stamped {
			g.taken, g.encoded, g.stamped = s.Filled, s.Began, true
		}
		if g.end <= x.done {
			x.deliverLocked(g, s, b)
			done++
		}
	}
	n := copy(x.more, x.more[done:])
	clear(x.more[n:])
	if x.more = x.more[:n]; n == 0 {
		x.owed = max(x.owed, x.done)
		if cap(x.more) > keptGiven {
			x.more = nil
		}
	}
}

// deliverLocked counts what was delivered: for the resource as a part of what one
// write carried, for the client and the subscription later, a few events at a time.
func (w *Watch) deliverLocked(g *given, s *Sent, b *batch) {
	w.events += uint64(g.count)
	w.sent += uint64(g.count)
	b.events += uint64(g.count)
	if g.arrival == nil {
		return
	}
	x := b.run(g, s)
	if x.entered < w.began {
		return // it happened before the watch
	}
	x.count += g.count
	x.bytes += g.end - g.start
	span, since, one := x.span, x.since, recent{uint16(x.at), x.late, g.count}
	if w.used > 0 {
		if last := &w.recent[w.used-1]; since >= w.recentEnd || int(w.used) == len(w.recent) && (last.at != one.at || last.late != one.late) {
			w.tellLocked()
		} else if last.at == one.at && last.late == one.late {
			last.count += one.count
			w.recentMax = max(w.recentMax, span)
			return
		}
	}
	if w.used == 0 {
		w.recentEnd, w.recentMax = since-since%coarse+coarse, 0
	}
	w.recent[w.used] = one
	w.used++
	w.recentMax = max(w.recentMax, span)
}

// tellLocked tells the client and the subscription what they were not told.
func (w *Watch) tellLocked() {
	c, sub := w.client, w.subscription
	events, bytes := w.events-w.toldEvents, w.bytes-w.toldBytes
	w.toldEvents, w.toldBytes = w.events, w.bytes
	since := w.recentEnd - coarse
	c.mu.Lock()
	c.events += events
	c.bytes += bytes
	if w.used > 0 {
		if into := c.window.at(since, coarse, (*clientSlot).reset); into != nil {
			for i := range w.recent[:w.used] {
				into.observe(&w.recent[i], w.recentMax)
			}
		}
	}
	c.mu.Unlock()
	sub.mu.Lock()
	sub.events += events
	if w.used > 0 {
		if into := sub.window.at(since, coarse, (*sketch).reset); into != nil {
			for i := range w.recent[:w.used] {
				x := &w.recent[i]
				into.observe(w.recentMax, int(x.at), x.count)
			}
		}
	}
	sub.mu.Unlock()
	w.used = 0
}

// tell has the client and the subscription know all that the watch knows.
func (w *Watch) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tellLocked()
}

// Wrote accounts for bytes that have no spans: initial events and bookmarks.
func (w *Watch) Wrote(bytes, events int) {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.events += uint64(events)
	w.bytes += uint64(bytes)
	if w.closed.Load() {
		w.tellLocked()
	}
	w.mu.Unlock()
	w.resource.mu.Lock()
	defer w.resource.mu.Unlock()
	w.resource.events += uint64(events)
	w.resource.bytes += uint64(bytes)
}

// Follows says that all initial events were sent.
func (w *Watch) Follows() {
	if w != nil {
		w.following.Store(true)
	}
}
