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
	// replicaObject begins the names of objects that "bench replica" writes, and quietObject
	// those of "bench quiet".
	replicaObject, quietObject = "bench-replica-", "bench-quiet-"
	// InitialObjects is how many objects an informer gets at first.
	InitialObjects = 2
)

// Informers is the part of an API that "bench replica" and "bench quiet" use: patches of objects of any
// resource, and watches that begin with InitialObjects and then have an event for each
// patch of their resource.
type Informers struct {
	// Lose and Repeat are how many of the events of each watch do not come, or come twice.
	Lose, Repeat int
	// EndAfter ends each watch after so many events. Zero value: it does not end. Clients
	// that resume it get what they have missed.
	EndAfter int
	// Refuse is how many watches are refused at first: half of them by status, the others by
	// an event.
	Refuse int

	mu struct {
		sync.Mutex
		changed *sync.Cond
		refused int
		events  []string // each with its resource; event i has revision firstRevision + i
	}
}

// serve answers a request for one of these, and otherwise returns false.
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
// account that its pods need and its rights.
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

// watch sends the initial objects, and then the events of a resource behind a revision.
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

// refuse answers the first watches as a server that has not caught up.
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

// wakeAtEnd wakes next when the client is gone.
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

// next waits for the next event of a resource behind a revision, which it moves on. It
// returns "" when the client is gone.
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
