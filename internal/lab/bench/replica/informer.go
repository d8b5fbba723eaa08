package replica

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/millrace/millrace/internal/conn/watchclient"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

const (
	// timeoutReason is in the error of a server that has not caught up in time.
	timeoutReason = `"reason":"Timeout"`
	// watchSeconds is the timeout of a watch. It is longer than a measurement.
	watchSeconds = "3600"
	// retryPause is the pause after a watch that was refused. It is client-go's first pause.
	retryPause = 800 * time.Millisecond
)

// informer follows one resource as client-go's informers do. Its first watch starts with all
// objects. Each further watch resumes where the watch before has ended. It is a
// watchclient.Handler.
//
// While a watch is open, the fields belong to the goroutine of the client's connection. Between two
// watches they belong to the goroutine that calls startWatch: of openFleet, End or a timer. Once
// the fleet has closed, startWatch does nothing.
type informer struct {
	resource watchedResource
	client   *client
	scanner  testbed.EventScanner

	synced   bool   // the bookmark that ends the initial events has arrived
	objects  int    // among the initial events
	version  []byte // resource version of the last event or bookmark
	resumed  int    // number of watches that resumed an ended watch
	refused  bool   // the server refuses the present watch for now
	retries  int    // number of watches after refused watches
	received digest // measured events
}

// startWatch sends the request for the informer's next watch. It does nothing once the fleet has
// ended.
func (i *informer) startWatch() {
	if i.client.fleet.ctx.Err() != nil {
		return
	}
	i.scanner = testbed.EventScanner{Mark: []byte(testbed.InitialEndMark), HeadBytes: testbed.ResourceVersionHeadBytes}
	i.refused = false
	if i.synced {
		i.awaitStamps()
	} else {
		i.objects = 0
	}
	i.client.wire.Start(&watchclient.Request{
		Method: http.MethodGet, URI: i.uri(), Accept: testbed.AcceptJSON, Identity: &i.client.identity,
	}, i)
}

// fail ends the fleet with an error, unless the fleet has ended before.
func (i *informer) fail(err error) {
	i.client.fleet.fail(fmt.Errorf("watch %s: %w", i.resource.name, err))
}

// Header implements watchclient.Handler.
func (i *informer) Header(h watchclient.Header) {
	switch h.Status {
	case http.StatusOK:
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		i.refused = true
	default:
		i.fail(fmt.Errorf("status %d", h.Status))
	}
}

// Data implements watchclient.Handler.
func (i *informer) Data(p []byte) {
	now := time.Now().UnixNano()
	i.scanner.Feed(p, func(e testbed.Event) { i.arrive(e, now) })
}

// End implements watchclient.Handler. It resumes the watch, or retries it if it was refused.
func (i *informer) End(err error) {
	switch {
	case i.client.fleet.ctx.Err() != nil:
	case err != nil:
		i.fail(fmt.Errorf("the watch broke off: %w", err))
	case i.refused:
		i.retries++
		time.AfterFunc(retryPause, i.startWatch)
	case !i.synced:
		i.fail(errors.New("the server ended the watch before all objects were sent"))
	default:
		i.resumed++
		i.startWatch()
	}
}

// awaitStamps makes the scanner look for the stamps of writes: the times at which they were sent.
func (i *informer) awaitStamps() {
	i.scanner.Mark, i.scanner.ValueBytes = []byte(testbed.StampMark), testbed.StampDigits
}

// uri returns the URI of the informer's next watch.
func (i *informer) uri() string {
	query := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {watchSeconds}}
	if i.synced {
		query.Set("resourceVersion", string(i.version))
	} else {
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", "NotOlderThan")
	}
	return i.resource.collection() + "?" + query.Encode()
}

// arrive handles an event that has arrived at time now, in nanoseconds since 1970.
func (i *informer) arrive(e testbed.Event, now int64) {
	if version := testbed.ResourceVersion(e.Head); version != nil {
		i.version = append(i.version[:0], version...)
	}
	switch {
	case e.IsType("ERROR"):
		i.refused = bytes.Contains(e.Head, []byte(timeoutReason))
		if !i.refused {
			i.fail(fmt.Errorf("the server sent %s", e.Head))
		}
	case i.synced:
		since := i.client.fleet.measuredSince.Load()
		if stamp := testbed.ParseStamp(e.Value); since > 0 && stamp >= since {
			i.client.spans = append(i.client.spans, time.Duration(now-stamp))
			i.client.fleet.events.Add(1)
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
