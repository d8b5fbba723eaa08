package watch

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/test/support/benchtest"
)

// impatientServer has config maps. Its watches begin after a resource version, and end after
// eventsOfWatch events, as a stock server ends watches that read too slowly. If lossy is set,
// watches end without events.
type impatientServer struct {
	lossy bool
	mu    struct {
		sync.Mutex
		changed *sync.Cond
		events  []string // event i has resource version i+1
		refused int
	}
}

const eventsOfWatch = 3

func newImpatientServer() *impatientServer {
	s := &impatientServer{}
	s.mu.changed = sync.NewCond(&s.mu)
	return s
}

func (s *impatientServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch query := r.URL.Query(); {
	case query.Get("watch") == "true":
		s.watch(w, r)
	case r.Method == http.MethodPut:
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		// In front of all else, as servers write it.
		object := fmt.Appendf(nil, `{"metadata":{"resourceVersion":"%d"},%s`, len(s.mu.events)+1, body[1:])
		s.mu.events = append(s.mu.events, string(testbed.ModifiedEvent(object)))
		s.mu.changed.Broadcast()
	case r.Method == http.MethodPost:
		w.WriteHeader(http.StatusCreated)
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		fmt.Fprintf(w, `{"metadata":{"resourceVersion":"%d"}}`, len(s.mu.events))
	}
}

// watch serves a watch. It refuses the first request.
func (s *impatientServer) watch(w http.ResponseWriter, r *http.Request) {
	defer s.wakeAtEnd(r)()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.refused++; s.mu.refused == 1 {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	var behind int
	fmt.Sscan(r.URL.Query().Get("resourceVersion"), &behind)
	w.(http.Flusher).Flush()
	for range eventsOfWatch {
		for len(s.mu.events) <= behind && r.Context().Err() == nil {
			s.mu.changed.Wait()
		}
		if r.Context().Err() != nil || s.lossy {
			return
		}
		io.WriteString(w, s.mu.events[behind])
		w.(http.Flusher).Flush()
		behind++
	}
}

// wakeAtEnd wakes the watch when its request ends, until the returned function is called.
func (s *impatientServer) wakeAtEnd(r *http.Request) (stop func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-r.Context().Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			s.mu.changed.Broadcast()
		case <-done:
		}
	}()
	return func() { close(done) }
}

// TestWatchIsResumed watches at a server that ends watches: all events must arrive once.
func TestWatchIsResumed(t *testing.T) {
	spec := eventWorkload{name: "x", kind: watchAll, watchers: 5, conns: 2, rate: 200}
	r := newTestRunner(t, newImpatientServer())
	r.plan.Timeout = 20 * time.Second
	res, err := r.run(t.Context(), spec)
	// There are 2 events to warm up and 10 measured ones for each watcher, 3 in a watch.
	if err != nil || res.Events != res.Writes*5 || res.Resumed < 3*5 {
		t.Errorf("got %+v, %v", res, err)
	}
	lossy := newImpatientServer()
	lossy.lossy = true
	if _, err := newTestRunner(t, lossy).run(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "the server ended the watch") {
		t.Errorf("got %v", err)
	}
}

func TestRevisionOf(t *testing.T) {
	for _, c := range []struct{ head, want string }{
		{`{"type":"MODIFIED","object":{"metadata":{"name":"x","resourceVersion":"67","labels"`, "67"},
		{`{"object":{"metadata":{"name":"x","resourceVersion":"6`, unknownRevision}, // cut off
		{`{"type":"ERROR","object":{"kind":"Status"}}`, unknownRevision},
	} {
		if got := cmp.Or(string(testbed.ResourceVersion([]byte(c.head))), unknownRevision); got != c.want {
			t.Errorf("%s: got %q, want %q", c.head, got, c.want)
		}
	}
}

func TestResumedURI(t *testing.T) {
	const uri = "/x?fieldSelector=a%3Db&resourceVersion=5&watch=true"
	for _, c := range []struct {
		uri, after, want string
		ok               bool
	}{
		{uri, "7", "/x?fieldSelector=a%3Db&resourceVersion=7&watch=true", true},
		{uri, "", uri, true},
		{uri, unknownRevision, "", false},
		{"/floor", "7", "", false},
	} {
		if got, ok := resumeURI(c.uri, c.after); got != c.want || ok != c.ok {
			t.Errorf("%s after %q: got %q, %v", c.uri, c.after, got, ok)
		}
	}
}

// TestInformerRestarts runs informers at a server that refuses the first request, and cuts off the
// answer to the second one.
func TestInformerRestarts(t *testing.T) {
	api := &benchtest.API{Secrets: 9}
	var requests struct {
		sync.Mutex
		n int
	}
	_, cfg := benchtest.StartTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Lock()
		requests.n++
		n := requests.n
		requests.Unlock()
		switch n {
		case 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case 2:
			io.WriteString(w, `{"type":"ADDED","object":{"kind":"Secret"}}`+"\n")
		default:
			api.ServeHTTP(w, r)
		}
	}), true)
	target, err := testbed.NewTarget(testbed.TargetConfig{REST: cfg})
	if err != nil {
		t.Fatal(err)
	}
	r := &informerRun{target: target, meter: testbed.NewMeter(os.Getpid()), uri: informersURI, progress: testbed.NewProgress(io.Discard)}
	res, err := r.measureInformers(t.Context(), informerWorkload{name: "x", informers: 4}, plan{Timeout: time.Minute})
	if err != nil || res.Restarts != 2 || res.Informers != 4 || res.Objects != 9 {
		t.Errorf("got %+v, %v", res, err)
	}
}
