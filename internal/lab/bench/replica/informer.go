package replica

import (
	"bytes"
	"net/url"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

const (
	// headBytes is how many of an event's first bytes contain its resource version, which
	// comes before labels and annotations.
	headBytes    = 400
	revisionMark = `"resourceVersion":"`
	// timeoutReason is in the error of a server that has not caught up in time.
	timeoutReason = `"reason":"Timeout"`
	// watchSeconds is longer than a measurement.
	watchSeconds = "3600"
)

// informer follows one resource as client-go's informers do: a watch that begins with all
// objects, and others that resume where one has ended. It belongs to its client's
// goroutine until the fleet has closed.
type informer struct {
	resource watchedResource
	client   *client
	scanner  testbed.EventScanner

	synced   bool   // the bookmark that ends the initial events has come
	objects  int    // among the initial events
	revision []byte // of the last event or bookmark
	resumed  int    // watches after the first
	refused  bool   // the present watch ends because the server has too much to do
	retries  int    // watches after refused ones
	failure  string // the ERROR event of a watch, which ends it for another reason
	received digest // measured events

	unread uint32 // bytes for which the stream's window was not widened yet
}

func newInformer(c *client, r watchedResource) *informer {
	i := &informer{resource: r, client: c}
	i.reset()
	return i
}

// reset prepares the informer for the events of its next watch.
func (i *informer) reset() {
	i.scanner = testbed.EventScanner{Mark: []byte(testbed.InitialEndMark), HeadBytes: headBytes}
	i.refused, i.unread = false, 0
	if i.synced {
		i.awaitStamps()
	} else {
		i.objects = 0
	}
}

// awaitStamps has the scanner look for the stamps of writes.
func (i *informer) awaitStamps() {
	i.scanner.Mark, i.scanner.ValueBytes = []byte(testbed.StampMark), testbed.StampDigits
}

// uri is that of the informer's next watch.
func (i *informer) uri() string {
	query := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {watchSeconds}}
	if i.synced {
		query.Set("resourceVersion", string(i.revision))
	} else {
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", "NotOlderThan")
	}
	return i.resource.collection() + "?" + query.Encode()
}

// arrive takes an event.
func (i *informer) arrive(e testbed.Event) {
	if _, rest, ok := bytes.Cut(e.Head, []byte(revisionMark)); ok {
		if end := bytes.IndexByte(rest, '"'); end >= 0 {
			i.revision = append(i.revision[:0], rest[:end]...)
		}
	}
	switch {
	case e.IsType("ERROR"):
		i.refused = bytes.Contains(e.Head, []byte(timeoutReason))
		if !i.refused {
			i.failure = string(e.Head)
		}
	case i.synced:
		if stamp := testbed.ParseStamp(e.Value); stamp > 0 && i.client.arrived(stamp) {
			i.received.add(stamp)
		}
	case e.Marked:
		i.synced = true
		i.awaitStamps()
		i.client.fleet.synced.Add(1)
	case e.IsType("ADDED"):
		i.objects++
	}
}
