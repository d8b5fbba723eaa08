package slo

import (
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/report"
)

// Arrival is when the events of one response of etcd's watch came, and when those
// of one resource among them became visible in its log.
type Arrival struct {
	Entered, Cached time.Time
}

// Write is one write to a connection, for all watches that it carries bytes of.
type Write struct {
	// Number counts the writes to a connection, from 1. It is 0 for a watch that has no
	// Transport.
	Number uint64
	// Filled is when the writer began to gather what it writes. Began and Ended are of
	// the write; they and what follows are known when it has returned.
	Filled, Began, Ended time.Time
	// Busy is since when the connection has had something to write without a pause,
	// and Writing how long it was writing in that time, before Began.
	Busy    time.Time
	Writing time.Duration
	// Local is what senders keep with the write, nil at first.
	Local any
}

// WindowStall says how a client's windows keep a watch from sending.
type WindowStall struct {
	// Since is since when they have not been open wide enough to send everything, and
	// For how long they were shut in that time.
	Since time.Time
	For   time.Duration
}

// WatchInfo is what is known of a watch when it begins.
type WatchInfo struct {
	// Resource is as in "pods" or "deployments.apps".
	Resource  string
	Client    report.Client
	Address   string
	Protocol  string
	Selection string
	Encoding  string
	// Backlog is the watch's among the events that it selects, History what the
	// resource remembers.
	Backlog   Backlog
	History   History
	Transport Transport
}

// Backlog tells how far behind a watch is. Any goroutine may ask it.
type Backlog interface {
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
	// Locked calls use, which waits for nothing, while nobody calls Taken, with how many
	// writes to the connection have returned.
	Locked(use func(returned uint64))
}

// Watch is the account of one watch. What follows initial events is counted by its
// Sender.
type Watch struct {
	set      *Watches
	id       uint64
	resource *resourceAccount
	peers    *peers
	// began is since the set's beginning.
	began time.Duration
	// events and bytes are those of Wrote.
	events, bytes atomic.Uint64
	// sender is nil as long as initial events are sent.
	sender atomic.Pointer[Sender]
	WatchInfo
}

// AddWithoutSpan accounts for bytes that have no spans: initial events and bookmarks.
func (w *Watch) AddWithoutSpan(bytes, events int) {
	if w == nil {
		return
	}
	w.events.Add(uint64(events))
	w.bytes.Add(uint64(bytes))
	w.resource.mu.Lock()
	w.resource.events += uint64(events)
	w.resource.bytes += uint64(bytes)
	w.resource.mu.Unlock()
	w.peers.client.add(uint64(events), uint64(bytes))
	w.peers.subscription.add(uint64(events), uint64(bytes))
}

// SetSender says that all initial events were sent, and who sends what follows.
func (w *Watch) SetSender(by *Sender) {
	if w == nil {
		return
	}
	by.watch, by.resource, by.peers = w, w.resource, w.peers
	w.sender.Store(by)
}

// sent is what was delivered: all, and of the events those behind the initial ones.
func (w *Watch) sent() (events, bytes, followed uint64) {
	events, bytes = w.events.Load(), w.bytes.Load()
	if x := w.sender.Load(); x != nil {
		var more uint64
		followed, more = x.sent()
		events, bytes = events+followed, bytes+more
	}
	return events, bytes, followed
}

// Close ends the account of a watch. What of it is written later is counted for
// its resource, its client and its subscription.
func (w *Watch) Close() {
	if w == nil {
		return
	}
	w.resource.settle()
	x := w.set
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.mu.watches, w.id)
	x.leaveLocked(w.peers)
}
