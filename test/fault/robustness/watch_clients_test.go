package robustness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
)

// watcher is a client that watches until its context ends. After each watch it
// resumes from the last revision that it received. If that revision has
// expired, it starts again.
type watcher struct {
	url     string
	client  *http.Client
	accept  string
	kind    *stressedKind
	start   watchcheck.Start
	query   url.Values
	timeout int
	// slow is the time that the client takes over a frame. It does not apply
	// while hurry is set.
	slow  time.Duration
	hurry *atomic.Bool
	// watchLists is set if the client gets its initial state by the watch.
	watchLists bool

	mu struct {
		sync.Mutex
		watches []*watchcheck.Watch
		refused map[string]int
		expired int
	}
}

const (
	protobufForm   = "application/vnd.kubernetes.protobuf"
	metadataOnly   = ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	table          = "application/json;as=Table;v=v1;g=meta.k8s.io"
	resumePause    = 200 * time.Millisecond
	answerPatience = 15 * time.Second
)

var watcherForms = []string{"application/json", "application/json", protobufForm, protobufForm, "application/json" + metadataOnly, protobufForm + metadataOnly, table, protobufForm + ",application/json"}

// newWatcher makes a client with random properties.
func newWatcher(r *rand.Rand, base string, clients []*http.Client, from int64) *watcher {
	k := choose(r, stressedKinds...)
	w := &watcher{
		client: choose(r, clients...), accept: choose(r, watcherForms...), kind: k, query: url.Values{"watch": {"1"}},
		timeout: choose(r, 7, 20, 60, 600), watchLists: r.IntN(2) == 0,
	}
	w.mu.refused = map[string]int{}
	if r.IntN(3) == 0 {
		w.start.Namespace = choose(r, stressNamespaces...)
	}
	w.url = base + k.path(w.start.Namespace)
	if r.IntN(3) > 0 {
		selector := choose(r, "app=web", "app!=db", "app in (web,cache)", "app notin (web)", "tier", "!tier", "tier=front,app=db", "absent", "!absent", "write>100")
		w.query.Set("labelSelector", selector)
		w.start.Labels, _ = labels.Parse(selector)
	}
	if r.IntN(3) == 0 {
		selector := choose(r, append([]string{"metadata.name=" + stressName(r), "metadata.name!=" + stressName(r), "metadata.namespace=" + stressNamespaces[0]}, k.selectors...)...)
		w.query.Set("fieldSelector", selector)
		w.start.Fields, _ = fields.ParseSelector(selector)
	}
	if r.IntN(5) == 0 {
		w.slow = choose(r, 5*time.Millisecond, 50*time.Millisecond)
	}
	w.start.Bookmarks = w.watchLists || r.IntN(2) == 0
	if w.accept == table && r.IntN(3) == 0 {
		w.query.Set("includeObject", choose(r, "Object", "Metadata"))
	}
	if !w.watchLists {
		w.start.Revision = from
	}
	return w
}

// request builds a watch that resumes from a revision. Revision 0 starts again.
func (w *watcher) request(revision int64, timeout int) (watchcheck.Start, string) {
	start, q := w.start, url.Values{}
	for name, values := range w.query {
		q[name] = values
	}
	start.Revision, start.Initial, start.End = revision, false, false
	if revision > 0 {
		q.Set("resourceVersion", fmt.Sprint(revision))
	} else {
		q.Set("sendInitialEvents", "true")
		q.Set("resourceVersionMatch", "NotOlderThan")
		start.Initial, start.End, start.Bookmarks = true, true, true
	}
	if start.Bookmarks {
		q.Set("allowWatchBookmarks", "true")
	}
	q.Set("timeoutSeconds", fmt.Sprint(timeout))
	return start, w.url + "?" + q.Encode()
}

// run watches until ctx ends.
func (w *watcher) run(ctx context.Context, t *testing.T) {
	revision := w.start.Revision
	for ctx.Err() == nil {
		watch, err := w.watchOnce(ctx, revision, w.timeout)
		if err != nil {
			w.mu.Lock()
			w.mu.refused[refusal(err)]++
			w.mu.Unlock()
			after(t, resumePause)
			continue
		}
		revision = w.next(t, watch)
	}
}

// next returns the revision from which to resume after watch.
func (w *watcher) next(t *testing.T, watch *watchcheck.Watch) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(watch.Frames); n > 0 && watch.Frames[n-1].Type == watchcheck.Error {
		status := watch.Frames[n-1].Status
		switch status.Code {
		case http.StatusGone:
			w.mu.expired++
			return 0
		case http.StatusGatewayTimeout, http.StatusServiceUnavailable, http.StatusTooManyRequests:
			w.mu.refused[fmt.Sprintf("frame %d", status.Code)]++
		default:
			t.Errorf("%s: an error that no client expects: %d %s: %s", w, status.Code, status.Reason, status.Message)
		}
		return watch.Start.Revision
	}
	return watch.Last()
}

// errRefused is an answer with an unexpected status. Clients send the request
// again.
type errRefused struct{ status int }

func (e errRefused) Error() string { return fmt.Sprint(e.status) }

func refusal(err error) string {
	var refused errRefused
	if errors.As(err, &refused) {
		return refused.Error()
	}
	return "connection"
}

// watchOnce opens one watch and reads it to its end. It returns an error if the
// watch could not be opened.
func (w *watcher) watchOnce(ctx context.Context, revision int64, timeout int) (*watchcheck.Watch, error) {
	start, target := w.request(revision, timeout)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", w.accept)
	impatient := time.AfterFunc(answerPatience, cancel)
	resp, err := w.client.Do(req)
	impatient.Stop()
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errRefused{resp.StatusCode}
	}
	reader, err := watchcheck.NewReader(resp.Body, resp.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	watch := &watchcheck.Watch{Start: start}
	w.mu.Lock()
	w.mu.watches = append(w.mu.watches, watch)
	w.mu.Unlock()
	for {
		_, f, err := reader.Next()
		w.mu.Lock()
		switch {
		case err == nil:
			watch.Frames = append(watch.Frames, f)
		case ctx.Err() != nil:
		case errors.Is(err, io.EOF):
			watch.Ended = true
		default:
			watch.Err = err
		}
		w.mu.Unlock()
		if err != nil {
			return watch, nil
		}
		if w.slow > 0 && !w.hurry.Load() {
			dawdle(ctx, w.slow)
		}
	}
}

func dawdle(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// newest returns the last revision that the client received.
func (w *watcher) newest() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.mu.watches) == 0 {
		return 0
	}
	return w.mu.watches[len(w.mu.watches)-1].Last()
}

func (w *watcher) String() string {
	query, _ := url.QueryUnescape(w.query.Encode())
	return fmt.Sprintf("%s?%s [%s]", w.url[strings.Index(w.url, "/api"):], query, w.accept)
}
