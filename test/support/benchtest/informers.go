package benchtest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

const (
	firstRevision = 2
	// Prefixes of the names of objects that "bench replica" and "bench quiet" write.
	replicaObject = "bench-replica-"
	quietObject   = "bench-quiet-"
	// InitialObjects is the number of objects that an informer receives at first.
	InitialObjects = 2
)

// Informers is the part of an API that "bench replica" and "bench quiet" use: patches of
// objects of any resource, and watches. A watch begins with InitialObjects, and then sends an
// event for each patch of its resource.
type Informers struct {
	// Lose is the number of events of each watch that are not sent. After them, events up to
	// number Repeat are sent twice.
	Lose, Repeat int
	// EndAfter is the number of events after which a watch ends. 0: it does not end. A client
	// that resumes it receives the missed events.
	EndAfter int
	// Refuse is the number of watches that are refused at first: half of them by status, the
	// others by an event.
	Refuse int

	mu struct {
		sync.Mutex
		changed *sync.Cond
		refused int
		events  []string // each with its resource; event i has revision firstRevision + i
	}
}

// serve answers a creation, a patch or a watch of these benches, or a request for a token. It
// returns false for another request.
func (f *Informers) serve(w http.ResponseWriter, r *http.Request) bool {
	parts := strings.Split(r.URL.Path, "/")
	last := parts[len(parts)-1]
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodPost && last == "token":
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"status":{"token":"secret"}}`)
	case isCreation(r):
		w.WriteHeader(http.StatusCreated)
	case r.Method == http.MethodPatch && (strings.HasPrefix(last, replicaObject) || strings.HasPrefix(last, quietObject)):
		body, _ := io.ReadAll(r.Body)
		f.change(parts[len(parts)-2], string(body))
	case query.Get("watch") == "true" && query.Has("timeoutSeconds"):
		f.watch(w, r, last)
	default:
		return false
	}
	return true
}

// isCreation reports whether a request creates an object of one of these benches, or the service
// account and the rights of its clients.
func isCreation(r *http.Request) bool {
	if r.Method != http.MethodPost {
		return false
	}
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return bytes.Contains(body, []byte(replicaObject)) || bytes.Contains(body, []byte(quietObject)) || strings.HasSuffix(r.URL.Path, "/serviceaccounts") || strings.HasSuffix(r.URL.Path, "/clusterrolebindings")
}

// change adds the event of a patch.
func (f *Informers) change(resource, patch string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	revision := firstRevision + len(f.mu.events)
	object := strings.Replace(patch, `{"metadata":{`, fmt.Sprintf(`{"kind":"X","metadata":{"name":"x","resourceVersion":"%d",`, revision), 1)
	f.mu.events = append(f.mu.events, resource+" "+string(testbed.ModifiedEvent([]byte(object))))
	f.condLocked().Broadcast()
}

func (f *Informers) condLocked() *sync.Cond {
	if f.mu.changed == nil {
		f.mu.changed = sync.NewCond(&f.mu)
	}
	return f.mu.changed
}

// watch sends the initial objects, unless the request has a revision, and then the events of a
// resource after the revision.
func (f *Informers) watch(w http.ResponseWriter, r *http.Request, resource string) {
	if f.refuse(w) {
		return
	}
	defer f.wakeAtEnd(r)()
	var revision int
	f.mu.Lock()
	if fmt.Sscan(r.URL.Query().Get("resourceVersion"), &revision); revision == 0 {
		revision = firstRevision + len(f.mu.events) - 1
		for i := range InitialObjects {
			fmt.Fprintf(w, `{"type":"ADDED","object":{"metadata":{"name":"x%d","resourceVersion":"1"}}}`+"\n", i)
		}
		fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d","annotations":{%s}}}}`+"\n", revision, testbed.InitialEndMark)
	}
	f.mu.Unlock()
	w.(http.Flusher).Flush()
	for sent := 0; f.EndAfter == 0 || sent < f.EndAfter; {
		event := f.next(r, resource, &revision)
		if event == "" {
			return
		}
		sent++
		copies := 1
		if sent <= f.Lose {
			copies = 0
		} else if sent <= f.Repeat {
			copies = 2
		}
		io.WriteString(w, strings.Repeat(event, copies))
		w.(http.Flusher).Flush()
	}
}

// refuse answers the first watches like a server that has not caught up. It reports whether it
// has answered.
func (f *Informers) refuse(w http.ResponseWriter) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.refused == f.Refuse {
		return false
	}
	if f.mu.refused++; f.mu.refused <= f.Refuse/2 {
		http.Error(w, `{"kind":"Status","reason":"TooManyRequests"}`, http.StatusTooManyRequests)
	} else {
		io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","reason":"Timeout","code":504}}`+"\n")
	}
	return true
}

// wakeAtEnd wakes next when the client is gone. The caller must call stop.
func (f *Informers) wakeAtEnd(r *http.Request) (stop func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-r.Context().Done():
			f.mu.Lock()
			defer f.mu.Unlock()
			f.condLocked().Broadcast()
		case <-done:
		}
	}()
	return func() { close(done) }
}

// next returns the next event of a resource after a revision, which it raises. It waits for the
// event, and returns "" when the client is gone.
func (f *Informers) next(r *http.Request, resource string, revision *int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r.Context().Err() == nil {
		for next := *revision + 1 - firstRevision; next < len(f.mu.events); next++ {
			*revision = firstRevision + next
			if event, ok := strings.CutPrefix(f.mu.events[next], resource+" "); ok {
				return event
			}
		}
		f.condLocked().Wait()
	}
	return ""
}
