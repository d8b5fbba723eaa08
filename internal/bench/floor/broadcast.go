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

	"github.com/millrace/millrace/internal/bench/testbed"
)

const (
	// eventFile is the event that the floor sends, a file beside the manifest.
	eventFile = "floor-event.json"
	// The floor's paths: streams of events, and the request that makes them.
	WatchPath   = "/floor-watch"
	RecordsPath = "/floor-records"
	emitPath    = "/floor-emit"
)

// broadcast is the least that Go's HTTP server can do for a watch: a handler a
// stream waits for one channel, writes bytes that are there and flushes.
type broadcast struct {
	frame []byte
	last  atomic.Pointer[frameNode]
	records
}

// frameNode is a frame, or the place of the next one. bytes and next may be
// read when ready is closed.
type frameNode struct {
	ready chan struct{}
	bytes []byte
	next  *frameNode
}

// newBroadcast returns nil without a frame.
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

// publish has one caller at a time.
func (b *broadcast) publish(at time.Time) {
	node := b.last.Load()
	node.bytes, node.next = testbed.WithStamp(b.frame, at), &frameNode{ready: make(chan struct{})}
	b.last.Store(node.next)
	close(node.ready)
	b.send(node.bytes)
}

// watch streams events until the client goes.
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

// emit makes events as the query says, and answers when they are made.
func (b *broadcast) emit(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	events, err := strconv.Atoi(query.Get("events"))
	rate, rateErr := strconv.ParseFloat(query.Get("rate"), 64)
	if err = errors.Join(err, rateErr); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = testbed.AtRate(r.Context(), events, rate, func(int) error { // ends with the client
		b.publish(time.Now())
		return nil
	})
}
