package floor

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

const (
	// eventFile is the file with the event that the floor sends. It is in the directory of the
	// manifest.
	eventFile = "floor-event.json"

	// WatchPath streams events, with one handler for each stream (broadcast).
	WatchPath = "/floor-watch"
	// RecordsPath streams events, with one goroutine for all streams (recordStreams).
	RecordsPath = "/floor-records"
	// emitPath publishes events, and answers when all are published.
	emitPath = "/floor-emit"
)

// broadcast sends one event repeatedly to all streams, each time with another stamp.
//
// For WatchPath this is the least that Go's HTTP server can do for a watch. The handler of a
// stream waits for the next event or the end of its request, writes bytes that are ready, and
// flushes. Events are a linked list, at whose end all handlers wait. Closing one channel wakes
// them all. A slow handler keeps its own part of the list alive, but delays no other handler.
type broadcast struct {
	event      []byte                    // as a line of JSON; never changed
	publishing sync.Mutex                // held while an event is published
	last       atomic.Pointer[eventNode] // the place of the next event; set with publishing held
	records    recordStreams
}

// eventNode is an event in the list, or the empty place of the next event. bytes and next may be
// read once ready is closed.
type eventNode struct {
	ready chan struct{}
	bytes []byte
	next  *eventNode
}

// newBroadcast returns a broadcast of the event in dir, or nil if dir has none.
func newBroadcast(dir string) (*broadcast, error) {
	event, err := os.ReadFile(filepath.Join(dir, eventFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read event: %w", err)
	}
	b := &broadcast{event: event}
	b.last.Store(&eventNode{ready: make(chan struct{})})
	return b, nil
}

// publish sends the event with the stamp of at to all streams. It may be called concurrently.
func (b *broadcast) publish(at time.Time) {
	b.publishing.Lock()
	defer b.publishing.Unlock()
	node := b.last.Load()
	node.bytes = testbed.WithStamp(b.event, at)
	node.next = &eventNode{ready: make(chan struct{})}
	b.last.Store(node.next)
	close(node.ready)
	b.records.send(node.bytes)
}

// watch handles requests of WatchPath. It ends when the client has gone.
func (b *broadcast) watch(w http.ResponseWriter, r *http.Request) {
	node := b.last.Load()
	w.Header().Set("Content-Type", testbed.AcceptJSON)
	flusher, _ := w.(http.Flusher)
	flusher.Flush()
	for done := r.Context().Done(); ; node = node.next {
		select {
		case <-node.ready:
		case <-done:
			return
		}
		if _, err := w.Write(node.bytes); err != nil {
			return
		}
		flusher.Flush()
	}
}

// emit handles requests of emitPath. In the query, events is the number of events to publish,
// and rate the number a second, which must be above 0.
func (b *broadcast) emit(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	events, err := strconv.Atoi(query.Get("events"))
	rate, rateErr := strconv.ParseFloat(query.Get("rate"), 64)
	if err = errors.Join(err, rateErr); err == nil && !(rate > 0) {
		err = fmt.Errorf("rate %g is not above 0", rate)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// AtRate returns an error only if the client has gone.
	_ = testbed.AtRate(r.Context(), events, rate, func(int) error {
		b.publish(time.Now())
		return nil
	})
}
