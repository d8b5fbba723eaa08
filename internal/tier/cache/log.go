package cache

import (
	"errors"
	"sort"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
)

// ErrExpired says that a log lacks events after a revision or a position, or has more of them than
// the caller lets undo. If the log lacks events, a watch cannot go on from there.
var ErrExpired = errors.New("events expired")

// Event is one change of one object.
type Event struct {
	// Entry is the object after the change. It is nil if the object was deleted.
	Entry *entry.Entry
	// Previous is the object before the change. It is nil if the object was created.
	Previous *entry.Entry
	// Revision is the etcd revision of the change.
	Revision int64
	// Frames caches the event's encoded forms for all watches. The log sets it.
	Frames *encode.Frames
	// Arrival has the times at which the event arrived. Nil means that they are unknown.
	// The events of a resource that arrived together share it.
	Arrival *entry.Arrival
}

// Key returns the key of the object that changed.
func (e *Event) Key() string {
	if e.Entry != nil {
		return e.Entry.Key
	}
	return e.Previous.Key
}

// Log is the recent history of one resource. One writer appends, and any number of
// readers follow by positions.
//
// A Position is the place of an event since the log began, not a pointer. Readers hold
// no memory of the log. So slow readers, however many, keep no more alive than the log's
// own bounds allow (see bounds). A reader whose next event is dropped gets ErrExpired. No
// reader delays the writer or other readers. In return each read takes the log's lock,
// and the client of a watch that was away for too long must list again.
//
// Readers wait on a channel that is closed at the next event or reset. The follower, of which
// there is one at most, is called by the writer instead: one call serves many watches
// (watch.Hub).
type Log struct {
	bounds *bounds
	clock  clock.PassiveClock

	mu struct {
		sync.Mutex
		events []timedEvent
		// first is the position of events[0], or of the next event if there is none: the number
		// of dropped events and of resets.
		first int64
		// bytes is the cost of all events, in bytes.
		bytes int64
		// completeAfter is a revision. The log has every event after it.
		completeAfter int64
		// grown is closed when events are appended or the log is reset, and then replaced.
		grown chan struct{}
		// follower may be nil.
		follower Follower
	}
}

// Follower is called when events are appended and when the log is reset, by the goroutine
// that does it. It is not called when old events are dropped. Its methods must not block.
type Follower interface {
	// Appended says that events became visible. at is the position of the first one. Events
	// before oldest were dropped. The log is locked. The follower must not keep the slice.
	Appended(at, oldest Position, events []Event)
	// Forgotten says that the log was reset: positions before end have expired. took is how long
	// the load took that replaced the objects, or 0 if there was none. The log is locked.
	Forgotten(end Position, took time.Duration)
	// LogUnlocked is called after each Appended and Forgotten, once the log is unlocked, but
	// not after the Appended of SetFollower. The follower wakes its readers here.
	LogUnlocked()
}

// timedEvent is an event and the time at which it became visible.
type timedEvent struct {
	Event
	at time.Time
}

// Position is the place of an event in a Log. A reader's position is that of its next event.
type Position int64

// newLog makes an empty log that is complete after the revision completeAfter.
func newLog(b *bounds, completeAfter int64, c clock.PassiveClock) *Log {
	l := &Log{bounds: b, clock: c}
	l.mu.completeAfter = completeAfter
	l.mu.grown = make(chan struct{})
	return l
}

// append adds events, which are in the order of their revisions, and drops events that are out
// of bounds. publish makes visible the state that the events lead to. It is called under the
// log's lock, so that a goroutine with the lock sees neither without the other. append sets the
// events' Frames and Arrival, and the Cached of arrival, which may be nil. Without events,
// append only calls publish.
func (l *Log) append(events []Event, arrival *entry.Arrival, publish func()) {
	if follower := l.appendEvents(events, arrival, publish); follower != nil {
		follower.LogUnlocked()
	}
}

// appendEvents does append's work under the lock. It returns the follower whose LogUnlocked
// is to be called, or nil.
func (l *Log) appendEvents(events []Event, arrival *entry.Arrival, publish func()) Follower {
	l.mu.Lock()
	defer l.mu.Unlock()
	publish()
	now := l.clock.Now()
	if len(events) == 0 {
		return nil
	}
	if arrival != nil {
		arrival.Cached = now
	}
	at := Position(l.mu.first + int64(len(l.mu.events)))
	for i := range events {
		events[i].Frames, events[i].Arrival = new(encode.Frames), arrival
		l.mu.events = append(l.mu.events, timedEvent{events[i], now})
		l.mu.bytes += events[i].cost()
	}
	l.trimLocked(now)
	close(l.mu.grown)
	l.mu.grown = make(chan struct{})
	if l.mu.follower != nil {
		l.mu.follower.Appended(at, Position(l.mu.first), events)
	}
	return l.mu.follower
}

// raiseCompleteAfter records that the log may lack events up to revision.
func (l *Log) raiseCompleteAfter(revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.completeAfter = max(l.mu.completeAfter, revision)
}

// SetFollower sets the log's follower and calls its Appended with all events that the
// log holds.
func (l *Log) SetFollower(f Follower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.follower = f
	events := make([]Event, len(l.mu.events))
	for i, e := range l.mu.events {
		events[i] = e.Event
	}
	f.Appended(Position(l.mu.first), Position(l.mu.first), events)
}

// all returns copies of all events, and the revision after which they are complete.
func (l *Log) all() (events []Event, completeAfter int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	events = make([]Event, len(l.mu.events))
	for i, e := range l.mu.events {
		events[i] = e.Event
	}
	return events, l.mu.completeAfter
}

// Size returns the number of events in the log, their cost in bytes, and when the oldest
// became visible. oldest is zero if the log is empty. Size implements slo.History.
func (l *Log) Size() (events int, bytes int64, oldest time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if events = len(l.mu.events); events > 0 {
		oldest = l.mu.events[0].at
	}
	return events, l.mu.bytes, oldest
}

// lastChangeRevision returns the revision of the last change, or a later revision since which
// there was no change.
func (l *Log) lastChangeRevision() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.mu.events); n > 0 {
		return l.mu.events[n-1].Revision
	}
	return l.mu.completeAfter
}

// backlogSample is the number of events from which Backlog estimates a mean size.
const backlogSample = 16

// Backlog returns when the event at a position became visible. If that event was dropped, the
// oldest event takes its place. meanBytes estimates the mean stored size of that event and the
// events after it. If there is none, both are zero.
func (l *Log) Backlog(at Position) (oldest time.Time, meanBytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := max(0, int64(at)-l.mu.first)
	if i >= int64(len(l.mu.events)) {
		return time.Time{}, 0
	}
	sample := l.mu.events[i:min(i+backlogSample, int64(len(l.mu.events)))]
	for _, e := range sample {
		shown := e.Entry
		if shown == nil {
			shown = e.Previous
		}
		meanBytes += int64(shown.Size())
	}
	return sample[0].at, meanBytes / int64(len(sample))
}

// eventOverhead is the memory that an event takes besides its previous version's value, in bytes.
const eventOverhead = 128

// cost returns the memory that the event keeps, in bytes. It counts the replaced version
// alone. The newer one is in the tree, or the event that replaced it counts it.
func (e *Event) cost() int64 {
	n := int64(eventOverhead)
	if e.Previous != nil {
		n += int64(len(e.Previous.Value))
	}
	return n
}

// reset drops all events, at a load, a Reload, an Unload or a Free. All positions expire. The log is
// then complete after the revision completeAfter. took is as in Follower.Forgotten, and publish as
// in append.
func (l *Log) reset(completeAfter int64, took time.Duration, publish func()) {
	if follower := l.resetEvents(completeAfter, took, publish); follower != nil {
		follower.LogUnlocked()
	}
}

// resetEvents does reset's work under the lock. It returns the follower whose LogUnlocked is
// to be called, or nil.
func (l *Log) resetEvents(completeAfter int64, took time.Duration, publish func()) Follower {
	l.mu.Lock()
	defer l.mu.Unlock()
	publish()
	// One position is skipped, so that the position at the end of the old log expires too.
	l.mu.first += int64(len(l.mu.events)) + 1
	l.mu.events, l.mu.bytes, l.mu.completeAfter = nil, 0, completeAfter
	close(l.mu.grown)
	l.mu.grown = make(chan struct{})
	if l.mu.follower != nil {
		l.mu.follower.Forgotten(Position(l.mu.first), took)
	}
	return l.mu.follower
}

// Since returns the position of the first event with a revision above rv. If there is none, next is
// the end of the log. The error is ErrExpired if the log lacks events after rv. smallest, which is
// valid with ErrExpired too, is the smallest rv that has not expired.
func (l *Log) Since(rv int64) (next Position, smallest int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rv < l.mu.completeAfter {
		return 0, l.mu.completeAfter, ErrExpired
	}
	i := l.firstAboveLocked(rv)
	return Position(l.mu.first + int64(i)), l.mu.completeAfter, nil
}

// firstAboveLocked returns the index of the first event with a revision above rv, or the
// number of events if there is none.
//
// Revisions never decrease along the log, because etcd sends events in order and a load
// empties the log (check verifies it). So a binary search finds the event. It is preceded
// by steps from the end that double in length. Most readers start near the end, where one
// step suffices. A search over the whole log would touch memory that is not in the
// processor's cache.
func (l *Log) firstAboveLocked(rv int64) int {
	n, step := len(l.mu.events), 1
	for step <= n && l.mu.events[n-step].Revision > rv {
		step *= 2
	}
	// Events from high on are above rv. The event at low is not, unless low is 0.
	low, high := max(0, n-step), n-step/2
	return low + sort.Search(high-low, func(i int) bool { return l.mu.events[low+i].Revision > rv })
}

// Read copies the events from at on to buf. It returns their number and the position
// after them. grown is closed at the log's next append or reset. If buf is filled, the log
// may have more events already. The error is ErrExpired, with nothing copied.
func (l *Log) Read(at Position, buf []Event) (n int, next Position, grown <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := int64(at) - l.mu.first
	if i < 0 {
		return 0, at, nil, ErrExpired
	}
	for n < len(buf) && int(i)+n < len(l.mu.events) {
		buf[n] = l.mu.events[int(i)+n].Event
		n++
	}
	return n, at + Position(n), l.mu.grown, nil
}

// Get copies to buf the events at some positions. buf has room for all of them. Get returns
// ErrExpired if one was dropped.
func (l *Log) Get(at []Position, buf []Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, position := range at {
		j := int64(position) - l.mu.first
		if j < 0 || j >= int64(len(l.mu.events)) {
			return ErrExpired
		}
		buf[i] = l.mu.events[j].Event
	}
	return nil
}

// maxUndo is the largest number of events that are undone for one old state. They take
// 12 ms (docs/bench/cache.md). For older states there is etcd.
const maxUndo = 20_000

// eventsAfter returns copies of all events with a revision above rv. It returns ErrExpired if the
// log lacks some, or has more than most. Before it returns events, it calls observe under the lock:
// a state that observe loads is the one that the newest event led to.
func (l *Log) eventsAfter(rv int64, most int, observe func()) ([]Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rv < l.mu.completeAfter {
		return nil, ErrExpired
	}
	i := l.firstAboveLocked(rv)
	if len(l.mu.events)-i > most {
		return nil, ErrExpired
	}
	events := make([]Event, 0, len(l.mu.events)-i)
	for _, e := range l.mu.events[i:] {
		events = append(events, e.Event)
	}
	observe()
	return events, nil
}
