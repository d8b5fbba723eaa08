package cache

import (
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/millrace/millrace/internal/encode"
	"github.com/millrace/millrace/internal/resource"
	"github.com/millrace/millrace/internal/slo"
)

// ErrExpired says that the events behind a revision are no longer all there.
// The client must list again.
var ErrExpired = errors.New("events expired")

// Event is one change of one object.
type Event struct {
	// Entry is the object after the change, nil when it was deleted.
	Entry *resource.Entry
	// Previous is the object before the change, nil when it was created.
	Previous *resource.Entry
	// Revision is the etcd revision of the change.
	Revision int64
	// Frames keeps what watchers are sent of the event.
	Frames *encode.Frames
	// Arrival is when the event came, nil if that is not known. The events of a
	// resource that came together share it.
	Arrival *slo.Arrival
}

// Key is the key of the object that changed.
func (e *Event) Key() string {
	if e.Entry != nil {
		return e.Entry.Key
	}
	return e.Previous.Key
}

// Log is the recent history of one resource, bounded by bytes and, but for its last
// events, by time. One
// writer appends; any number of readers follow with cursors. A reader that is
// overtaken by the bounds learns so from ErrExpired and delays nobody.
type Log struct {
	bounds *bounds
	clock  clock.PassiveClock

	mu struct {
		sync.Mutex
		events []timedEvent
		// first is the position of events[0]: how many events were dropped.
		first int64
		bytes int64
		// since is the revision from which on the log is complete: every event
		// with a larger revision is in it.
		since int64
		// grown is closed when an event is appended, and then replaced.
		grown chan struct{}
		// follower may be nil.
		follower Follower
	}
}

// Follower is told of every event by the log's writer, so that it can wake those
// that wait for it. Its methods must not block.
type Follower interface {
	// Appended says that events became visible, the first of them at a cursor, and
	// that those before oldest are gone. The log is locked.
	Appended(at, oldest Cursor, events []Event)
	// Forgotten says that the history was broken: no cursor from before leads on.
	// The log is locked.
	Forgotten(end Cursor)
	// Settled is called after each of them, when the log is not locked any more.
	Settled()
}

type timedEvent struct {
	Event
	at time.Time
}

// Cursor is a reader's place in a Log: the position of its next event.
type Cursor int64

func newLog(b *bounds, since int64, c clock.PassiveClock) *Log {
	l := &Log{bounds: b, clock: c}
	l.mu.since = since
	l.mu.grown = make(chan struct{})
	return l
}

// append adds events, which are in order, and drops what is out of bounds.
// publish makes the state visible that the events lead to, at the same moment
// for who holds the lock.
// arrival may be nil, or what all events share but for the time at which they are
// visible.
func (l *Log) append(events []Event, arrival *slo.Arrival, publish func()) {
	if follower := l.add(events, arrival, publish); follower != nil {
		follower.Settled()
	}
}

// add returns who has to be told.
func (l *Log) add(events []Event, arrival *slo.Arrival, publish func()) Follower {
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
	at := Cursor(l.mu.first + int64(len(l.mu.events)))
	for i := range events {
		events[i].Frames, events[i].Arrival = new(encode.Frames), arrival
		l.mu.events = append(l.mu.events, timedEvent{events[i], now})
		l.mu.bytes += events[i].cost()
	}
	l.trimLocked(now)
	close(l.mu.grown)
	l.mu.grown = make(chan struct{})
	if l.mu.follower != nil {
		l.mu.follower.Appended(at, Cursor(l.mu.first), events)
	}
	return l.mu.follower
}

// begin says that events up to a revision are not in the log, if they were.
func (l *Log) begin(revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.since = max(l.mu.since, revision)
}

// SetFollower makes a follower of the log's, which has one at most. It is told of all
// events that the log holds.
func (l *Log) SetFollower(f Follower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.follower = f
	events := make([]Event, len(l.mu.events))
	for i, e := range l.mu.events {
		events[i] = e.Event
	}
	f.Appended(Cursor(l.mu.first), Cursor(l.mu.first), events)
}

// Held says what the log holds, and when the oldest of it came. It implements
// slo.History.
func (l *Log) Held() (events int, bytes int64, oldest time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if events = len(l.mu.events); events > 0 {
		oldest = l.mu.events[0].at
	}
	return events, l.mu.bytes, oldest
}

// sampled is how many events tell how large others are.
const sampled = 16

// Backlog says when the event at a cursor came, and about how large it and those
// that follow are, in bytes as they are stored.
func (l *Log) Backlog(at Cursor) (oldest time.Time, size int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := max(0, int64(at)-l.mu.first)
	if i >= int64(len(l.mu.events)) {
		return time.Time{}, 0
	}
	some := l.mu.events[i:min(i+sampled, int64(len(l.mu.events)))]
	for _, e := range some {
		shown := e.Entry
		if shown == nil {
			shown = e.Previous
		}
		size += int64(shown.Size())
	}
	return some[0].at, size / int64(len(some))
}

const eventOverhead = 128

// cost counts the version that the event replaced: the newer one is in the
// tree or is counted by the event that replaced it.
func (e *Event) cost() int64 {
	n := int64(eventOverhead)
	if e.Previous != nil {
		n += int64(len(e.Previous.Value))
	}
	return n
}

// reset forgets everything up to a revision: the feed was broken and what
// happened before is unknown. Readers that are behind get ErrExpired. publish is
// as in append.
func (l *Log) reset(since int64, publish func()) {
	if follower := l.forget(since, publish); follower != nil {
		follower.Settled()
	}
}

func (l *Log) forget(since int64, publish func()) Follower {
	l.mu.Lock()
	defer l.mu.Unlock()
	publish()
	l.mu.first += int64(len(l.mu.events)) + 1
	l.mu.events, l.mu.bytes, l.mu.since = nil, 0, since
	close(l.mu.grown)
	l.mu.grown = make(chan struct{})
	if l.mu.follower != nil {
		l.mu.follower.Forgotten(Cursor(l.mu.first))
	}
	return l.mu.follower
}

// Since returns a cursor at the first event with a revision above rv, or
// ErrExpired with the oldest revision that can be asked for.
func (l *Log) Since(rv int64) (Cursor, int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rv < l.mu.since {
		return 0, l.mu.since, ErrExpired
	}
	i := len(l.mu.events)
	for i > 0 && l.mu.events[i-1].Revision > rv {
		i--
	}
	return Cursor(l.mu.first + int64(i)), l.mu.since, nil
}

// Read fills buf with the events at the cursor and returns how many there are
// and the cursor behind them. With none, grown is closed when that changes.
func (l *Log) Read(at Cursor, buf []Event) (n int, next Cursor, grown <-chan struct{}, err error) {
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
	return n, at + Cursor(n), l.mu.grown, nil
}

// Get fills buf with the events at some cursors, which are in order.
func (l *Log) Get(at []Cursor, buf []Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, c := range at {
		j := int64(c) - l.mu.first
		if j < 0 || j >= int64(len(l.mu.events)) {
			return ErrExpired
		}
		buf[i] = l.mu.events[j].Event
	}
	return nil
}

// maxUndo bounds how many events are undone for one old state: 12 ms worth
// (docs/bench/cache.md). etcd answers too.
const maxUndo = 20_000

// later returns copies of all events with a revision above rv and calls observe
// at the moment when the newest of them is the last one of the visible state.
func (l *Log) later(rv int64, observe func()) ([]Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rv < l.mu.since {
		return nil, ErrExpired
	}
	i := len(l.mu.events)
	for i > 0 && l.mu.events[i-1].Revision > rv {
		i--
	}
	if len(l.mu.events)-i > maxUndo {
		return nil, ErrExpired
	}
	events := make([]Event, 0, len(l.mu.events)-i)
	for _, e := range l.mu.events[i:] {
		events = append(events, e.Event)
	}
	observe()
	return events, nil
}
