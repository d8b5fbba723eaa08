package informers

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// calls counts the requests of a mirror. lists, watchLists and watches include
// attempts that got no answer.
type calls struct {
	lists      atomic.Int64
	watchLists atomic.Int64
	watches    atomic.Int64
	// loaded counts lists and watch-lists that were answered. resumed counts
	// watches that were answered.
	loaded  atomic.Int64
	resumed atomic.Int64
	// gone counts answers and events with status 410.
	gone atomic.Int64
}

// callTally is a sum of calls.
type callTally struct{ lists, watchLists, watches, loaded, resumed, gone int64 }

func (t callTally) plus(c *calls) callTally {
	return callTally{
		t.lists + c.lists.Load(), t.watchLists + c.watchLists.Load(), t.watches + c.watches.Load(),
		t.loaded + c.loaded.Load(), t.resumed + c.resumed.Load(), t.gone + c.gone.Load(),
	}
}

func (t callTally) minus(o callTally) callTally {
	return callTally{t.lists - o.lists, t.watchLists - o.watchLists, t.watches - o.watches, t.loaded - o.loaded, t.resumed - o.resumed, t.gone - o.gone}
}

func (t callTally) String() string {
	return fmt.Sprintf("%d LISTs, %d watch-lists (%d of both answered), %d watches from a resource version (%d answered), %d times 410",
		t.lists, t.watchLists, t.loaded, t.watches, t.resumed, t.gone)
}

// countingTransport is a client's transport. It counts a request in the calls
// that the request's context carries, or else in fixed.
type countingTransport struct {
	next  http.RoundTripper
	fixed *calls
}

type callsKey struct{}

func withCalls(ctx context.Context, c *calls) context.Context {
	return context.WithValue(ctx, callsKey{}, c)
}

func (c countingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	to, ok := req.Context().Value(callsKey{}).(*calls)
	if !ok {
		to = c.fixed
	}
	if to == nil || req.Method != http.MethodGet || isDiscovery(req.URL.Path) {
		return c.next.RoundTrip(req)
	}
	answered := to.began(req)
	resp, err := c.next.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusGone {
		to.gone.Add(1)
	}
	if err == nil && resp.StatusCode == http.StatusOK && answered != nil {
		answered.Add(1)
	}
	return resp, err
}

// isDiscovery reports whether path is /api, /api/v1, /apis or
// /apis/group/version, not a resource.
func isDiscovery(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	return len(parts) < 3 || parts[0] == "apis" && len(parts) < 4
}

// began counts a request. It returns the counter for the answer, or nil if
// answers of this kind are not counted.
func (c *calls) began(req *http.Request) (answered *atomic.Int64) {
	query := req.URL.Query()
	switch {
	case query.Get("watch") == "" && query.Get("continue") == "":
		c.lists.Add(1)
		return &c.loaded
	case query.Get("watch") == "":
		return nil // a later page of a list
	case query.Get("sendInitialEvents") == "true":
		c.watchLists.Add(1)
		return &c.loaded
	default:
		c.watches.Add(1)
		return &c.resumed
	}
}

// countGone returns a watch that counts the 410s among the events of w.
func (c *calls) countGone(w watch.Interface) watch.Interface {
	return watch.Filter(w, func(event watch.Event) (watch.Event, bool) {
		if event.Type == watch.Error {
			if err := apierrors.FromObject(event.Object); apierrors.IsGone(err) || apierrors.IsResourceExpired(err) {
				c.gone.Add(1)
			}
		}
		return event, true
	})
}
