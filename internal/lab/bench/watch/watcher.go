package watch

import (
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// watcher is one watch with its measurements.
type watcher struct {
	group      *watcherGroup
	connection *connection
	uri        string
	spans      []time.Duration // from the stamps of measured events to their arrival
	bytes      atomic.Int64    // received since group.measuredSince was set, before decompression
	// resumed is the number of times that the watch was resumed after its last event.
	resumed int
}

// maxFruitless bounds the resumptions in a row after which no event came.
const maxFruitless = 3

// follow receives events until the group is closed. If the server ends the watch, follow resumes it
// after its last event, as client-go does: servers end watches that read too slowly. Events then
// come late, but all events come. The end of a watch in protobuf, or of a stream of the floor, is an
// error.
func (w *watcher) follow(resp *http.Response) error {
	for fruitless := 0; ; {
		last, ended := w.read(resp)
		if w.group.ctx.Err() != nil {
			return nil
		}
		fruitless++
		if last != "" {
			fruitless = 0
		}
		uri, ok := resumeURI(w.uri, last)
		if !ok || w.group.form.isProtobuf() || fruitless == maxFruitless {
			return fmt.Errorf("the server ended the watch: %w", ended)
		}
		w.uri = uri
		var err error
		if resp, err = w.group.watch(w.connection, w.uri); err != nil {
			if w.group.ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("the server ended the watch: %w: resume it: %w", ended, err)
		}
		w.resumed++
	}
}

// read receives events until the watch ends. It returns the resource version of the last event, or
// unknownRevision, or "" if there was no event. ended says why the watch ended.
func (w *watcher) read(resp *http.Response) (last string, ended error) {
	defer resp.Body.Close()
	body := io.Reader(&countingReader{Reader: resp.Body, watcher: w})
	if resp.Header.Get("Content-Encoding") == testbed.EncodingGzip {
		if body, ended = gzip.NewReader(body); ended != nil {
			return "", ended
		}
	}
	scanner := w.group.form.stampScanner()
	var head []byte // of the last event
	buf := make([]byte, readBytes)
	for ended == nil {
		var n int
		n, ended = body.Read(buf)
		now := time.Now().UnixNano()
		scanner.Feed(buf[:n], func(e testbed.Event) {
			head = append(head[:0], e.Head...)
			w.arrive(e, now)
		})
	}
	if len(head) == 0 {
		return "", ended
	}
	return cmp.Or(string(testbed.ResourceVersion(head)), unknownRevision), ended
}

// unknownRevision stands for the resource version of an event whose first bytes have none.
const unknownRevision = "?"

// arrive counts an event that has arrived at time now, in nanoseconds since 1970.
func (w *watcher) arrive(e testbed.Event, now int64) {
	if since := w.group.measuredSince.Load(); since > 0 {
		if sent := testbed.ParseStamp(e.Value); sent >= since {
			w.spans = append(w.spans, time.Duration(now-sent))
		}
	}
	w.group.arrivedEvents.Add(1)
}

// resumeURI returns the request that resumes a watch after a resource version, or from its
// start if after is "". ok is false for streams without resource versions, such as streams of the
// floor.
func resumeURI(uri, after string) (_ string, ok bool) {
	u, err := url.Parse(uri)
	if err != nil || after == unknownRevision {
		return "", false
	}
	query := u.Query()
	if !query.Has("resourceVersion") {
		return "", false
	}
	if after != "" {
		query.Set("resourceVersion", after)
	}
	u.RawQuery = query.Encode()
	return u.String(), true
}

// countingReader adds the bytes that are read to the watcher's, while events are measured.
type countingReader struct {
	io.Reader
	watcher *watcher
}

// Read implements io.Reader.
func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.watcher.group.measuredSince.Load() > 0 {
		r.watcher.bytes.Add(int64(n))
	}
	return n, err
}
