package floor

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

const (
	// eventFile is the file with the event that the floor sends. It is in the same
	// directory as the manifest.
	eventFile = "floor-event.json"

	// WatchPath streams events, with a handler for each stream (broadcast).
	WatchPath = "/floor-watch"
	// RecordsPath streams events, with one goroutine for all streams (recordStreams).
	RecordsPath = "/floor-records"
	// emitPath makes events, and answers when they are published.
	emitPath = "/floor-emit"
)

// broadcast sends one event again and again, each time with another stamp, to all
// streams.
//
// For WatchPath this is the least that Go's HTTP server can do for a watch: the
// handler of a stream waits for one channel, writes bytes that are ready, and flushes.
// Events are a linked list, at whose end all handlers wait. Closing one channel wakes
// them all, and a slow handler holds nothing up but its own part of the list.
type broadcast struct {
	frame []byte
	last  atomic.Pointer[frameNode]
	recordStreams
}

// frameNode is an event in the list, or the empty place of the next one. bytes and next
// may be read once ready is closed.
type frameNode struct {
	ready chan struct{}
	bytes []byte
	next  *frameNode
}

// newBroadcast loads the event. It returns nil if dir has none.
func newBroadcast(dir string) (*broadcast, error) {
	frame, err := os.ReadFile(filepath.Join(dir, eventFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read event: %w", err)
	}
	b := &broadcast{frame: frame}
	b.last.Store(&frameNode{ready: make(chan struct{})})
	return b, nil
}

// publish sends the event with the stamp of at. One goroutine may call it at a time.
func (b *broadcast) publish(at time.Time) {
	node := b.last.Load()
	node.bytes, node.next = testbed.WithStamp(b.frame, at), &frameNode{ready: make(chan struct{})}
	b.last.Store(node.next)
	close(node.ready)
	b.send(node.bytes)
}

// watch is the handler of WatchPath. It ends when the client has gone.
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

// emit is the handler of emitPath. The query says how many events are published, and
// how many a second.
func (b *broadcast) emit(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	events, err := strconv.Atoi(query.Get("events"))
	rate, rateErr := strconv.ParseFloat(query.Get("rate"), 64)
	if err = errors.Join(err, rateErr); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = testbed.AtRate(r.Context(), events, rate, func(int) error { // the error is that the client has gone
		b.publish(time.Now())
		return nil
	})
}
