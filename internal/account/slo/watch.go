package slo

import (
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// Write is one write to a connection. It carries bytes of one or more watches.
//
// It has the same fields as pull.Write, so that a pull.Write can be converted to a Write.
type Write struct {
	// Number counts the writes of a connection, from 1. All fields but Number, FillBegan and
	// Local are valid once the write has returned.
	Number uint64
	// FillBegan is when the writer began to fill its buffer.
	FillBegan time.Time
	// Began and Ended are the times of the write itself.
	Began, Ended time.Time
	// BusySince is the time from which on the connection had something to write without a pause.
	BusySince time.Time
	// Writing is how long the connection was writing from BusySince to Began.
	Writing time.Duration
	// Local is a receiver's own data for the write. It is nil at first.
	Local any
}

// WindowStall says how a client's flow-control windows keep a watch from sending.
type WindowStall struct {
	// Since is the time from which on the windows have not been wide enough to send everything.
	Since time.Time
	// For is how long the windows have been closed since Since.
	For time.Duration
}

// WatchInfo describes a watch when it begins.
type WatchInfo struct {
	// Resource is as in "pods" or "deployments.apps".
	Resource  string
	Client    serverreport.Client
	Address   string
	Protocol  string
	Selection string
	Encoding  string
	// Backlog measures this watch. Reports call Backlog, History and Transport.
	Backlog Backlog
	// History measures the resource of this watch.
	History   History
	Transport Transport
}

// Backlog measures how far a watch lags. Any goroutine may call it.
type Backlog interface {
	// Behind returns at most how many events the watch has not been sent yet. bytes estimates
	// their size. oldest is when the oldest of them became visible, or zero if there are none.
	// sent is the number of events that were delivered since the initial ones.
	Behind(sent uint64) (events, bytes int64, oldest time.Time)
}

// History measures what a resource's log holds. Any goroutine may call it.
type History interface {
	// Size returns the number of events in the log, their bytes, and when the oldest event
	// became visible. oldest is zero if the log is empty.
	Size() (events int, bytes int64, oldest time.Time)
}

// Transport is the stream that a watch is sent over. Any goroutine may call it.
type Transport interface {
	// Waits returns since when the client's flow-control window has been closed. It is zero if
	// the window is open. Waits also returns since when a write has been going on. It is zero
	// between writes.
	Waits() (windowClosed, writeBegan time.Time)
	// WithLock calls use with the lock that SendAccount.Placed is called with. returned is how
	// many writes to the connection have returned. use must not block.
	WithLock(use func(returned uint64))
}

// Watch is the account of one watch. It counts the initial events, and the bytes that the request's
// goroutine writes: ordinary bookmarks and the end. SendAccount counts all that workers send. A nil
// Watch counts nothing.
type Watch struct {
	set      *Watches
	id       uint64
	resource *resourceAccount
	buffer   *deliveryBuffer
	// openedOffset is the time of Open, as an offset from Watches.startedAt.
	openedOffset time.Duration
	// events and bytes are the sums of AddWithoutSpan.
	events, bytes atomic.Uint64
	// sendAccount is nil while initial events are sent.
	sendAccount atomic.Pointer[SendAccount]
	WatchInfo
}

// AddWithoutSpan counts initial events, and bytes that the request's goroutine has written. A
// bookmark adds bytes and no event.
func (w *Watch) AddWithoutSpan(bytes, events int) {
	if w == nil {
		return
	}
	w.events.Add(uint64(events))
	w.bytes.Add(uint64(bytes))
	w.resource.mu.Lock()
	w.resource.mu.events += uint64(events)
	w.resource.mu.bytes += uint64(bytes)
	w.resource.mu.Unlock()
	w.buffer.client.add(uint64(events), uint64(bytes))
	w.buffer.subscription.add(uint64(events), uint64(bytes))
}

// SetSendAccount connects a SendAccount to the account when all initial events were sent. It
// must be called once, before the methods of s. If w is nil, it does nothing, and s may be
// nil.
func (w *Watch) SetSendAccount(s *SendAccount) {
	if w == nil {
		return
	}
	s.watch, s.resource, s.buffer = w, w.resource, w.buffer
	w.sendAccount.Store(s)
}

// delivered returns the events and bytes that were delivered. followed is the number of the
// events after the initial ones.
func (w *Watch) delivered() (events, bytes, followed uint64) {
	events, bytes = w.events.Load(), w.bytes.Load()
	if s := w.sendAccount.Load(); s != nil {
		var sentBytes uint64
		followed, sentBytes = s.delivered()
		events, bytes = events+followed, bytes+sentBytes
	}
	return events, bytes, followed
}

// Expired counts and logs a watch that ended because the log no longer had its position. The client
// has to list again.
func (w *Watch) Expired() {
	if w == nil {
		return
	}
	w.resource.mu.Lock()
	w.resource.mu.expired++
	w.resource.mu.Unlock()
	w.set.logThrottle.do(w.set.cfg.Clock.Now(), func(dropped uint64) {
		w.set.cfg.Logger.Warn("Watch was told to list again: what it had not been sent is not in the log any more; the client was too slow, or the feed was broken",
			"resource", w.resource.name, "user", w.Client.User, "userAgent", w.Client.UserAgent, "address", w.Address, "selection", w.Selection, "notLogged", dropped)
	})
}

// Close ends the account. Writes that return later are still counted for the resource,
// the client and the subscription.
func (w *Watch) Close() {
	if w == nil {
		return
	}
	w.resource.countPending()
	set := w.set
	set.mu.Lock()
	defer set.mu.Unlock()
	delete(set.mu.watches, w.id)
	set.leaveBufferLocked(w.buffer)
}
