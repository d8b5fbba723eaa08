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

// watcher is one watch and what it has measured.
type watcher struct {
	group      *watcherGroup
	connection *connection
	uri        string
	spans      []time.Duration
	bytes      atomic.Int64 // received since group.measuredSince was set, before decompression
	// resumed is how often the server ended the watch, which then went on behind its last event.
	resumed int
}

// maxFruitless is how often in a row a watch is resumed that then ends without an event.
const maxFruitless = 3

// follow receives events until the group is closed. A watch that the server ends is resumed
// behind its last event, as by client-go: servers end those that read too slowly. Its events
// come late then, but all of them come.
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
		from, ok := resumedURI(w.uri, last)
		if !ok || w.group.form.isProtobuf() || fruitless == maxFruitless {
			return fmt.Errorf("the server ended it: %w", ended)
		}
		w.uri = from
		var err error
		if resp, err = w.group.watch(w.connection, w.uri); err != nil {
			if w.group.ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("the server ended it: %w: resume it: %w", ended, err)
		}
		w.resumed++
	}
}

// read receives events until the watch ends. It returns the resource version of the last event,
// if there is one, and why the watch ended.
func (w *watcher) read(resp *http.Response) (last string, ended error) {
	defer resp.Body.Close()
	body := io.Reader(&countingReader{from: resp.Body, watcher: w})
	if resp.Header.Get("Content-Encoding") == testbed.EncodingGzip {
		if body, ended = gzip.NewReader(body); ended != nil {
			return "", ended
		}
	}
	scanner := w.group.form.stampScanner()
	var head []byte // of the last event
	buf := make([]byte, readSize)
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
	return cmp.Or(string(testbed.Revision(head)), unknownRevision), ended
}

// unknownRevision stands for that of an event which has none.
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

// resumedURI is the request of a watch that goes on behind a resource version, or where it
// began if that is "". It is not ok if that cannot be: the floor has no versions.
func resumedURI(uri, after string) (_ string, ok bool) {
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

type countingReader struct {
	from    io.Reader
	watcher *watcher
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if r.watcher.group.measuredSince.Load() > 0 {
		r.watcher.bytes.Add(int64(n))
	}
	return n, err
}
