package feedtest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/feed"
)

// Paths and keys of the one resource that an APIServer serves.
const (
	CollectionPath = "/apis/x/v1/widgets"
	KeyPrefix      = "/registry/x/widgets/"
	namespace      = "ns"
	namespacedPath = "/apis/x/v1/namespaces/" + namespace + "/widgets"
)

// APIOptions say what kind of server an APIServer is.
type APIOptions struct {
	// WatchLists says that watches may begin with all objects.
	WatchLists bool
	// Replica says that it is a Millrace: it sends bookmarks as often as is asked for, and
	// compresses watches.
	Replica bool
}

// APIServer serves one custom resource from memory, and keeps all its history, until Forget.
// It is a part of a Source: what is left to do is Source.Feed.
type APIServer struct {
	*httptest.Server
	options APIOptions
	// followers are the feeds for which Break waits.
	followers []feed.Feed
	mu        struct {
		sync.Mutex
		// log has all changes.
		log []Write
		// revision is the revision of the newest change, or of a later write elsewhere.
		revision int64
		// forgotten is the revision before which nothing is known.
		forgotten int64
		// backup is the log as it was at Backup.
		backup []Write
		// backupRevision is the revision at Backup.
		backupRevision int64
		broken         bool
		// siblings have all changes but the newest one.
		siblings []*APIServer
		// intercept is nil, or answers a request in place of the server and returns true.
		intercept func(http.ResponseWriter, *http.Request) bool
		// ends is closed when all watches end, in good order.
		ends chan struct{}
		// moved is closed when the revision grows.
		moved chan struct{}
	}
}

// NewAPIServer starts a server without objects, until the test ends.
func NewAPIServer(t *testing.T, options APIOptions) *APIServer {
	s := NewAPIHandler(options)
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.Server.CloseClientConnections()
		s.Server.Close()
	})
	return s
}

// NewAPIHandler returns a server that listens nowhere.
func NewAPIHandler(options APIOptions) *APIServer {
	s := &APIServer{options: options}
	s.mu.revision, s.mu.moved, s.mu.ends = 1, make(chan struct{}), make(chan struct{})
	return s
}

// Sibling starts a replica in front of the server. It has all that the server has, except the
// newest change.
func (s *APIServer) Sibling(t *testing.T) *APIServer {
	sibling := NewAPIServer(t, APIOptions{WatchLists: true, Replica: true})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.siblings = append(s.mu.siblings, sibling)
	return sibling
}

// setHistory replaces what a replica has.
func (s *APIServer) setHistory(log []Write, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.log, s.mu.revision = log, revision
	close(s.mu.moved)
	s.mu.moved = make(chan struct{})
}

// EndWatches ends all watches in good order.
func (s *APIServer) EndWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.mu.ends)
	s.mu.ends = make(chan struct{})
}

// Intercept sets a function that sees all requests first, and may change them. It has answered
// the requests for which it returns true.
func (s *APIServer) Intercept(intercept func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.intercept = intercept
}

// write adds a change, or, if w is nil, a write elsewhere. It returns the revision.
func (s *APIServer) write(w *Write) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sibling := range s.mu.siblings {
		sibling.setHistory(slices.Clone(s.mu.log), s.mu.revision)
	}
	s.mu.revision++
	if w != nil {
		w.Revision = s.mu.revision
		s.mu.log = append(s.mu.log, *w)
	}
	close(s.mu.moved)
	s.mu.moved = make(chan struct{})
	return s.mu.revision
}

// Put implements Source.
func (s *APIServer) Put(_ *testing.T, name, text string) int64 {
	return s.write(&Write{Name: name, Text: text})
}

// Delete implements Source.
func (s *APIServer) Delete(_ *testing.T, name string) int64 {
	return s.write(&Write{Name: name, Deleted: true})
}

// PutElsewhere implements Source.
func (s *APIServer) PutElsewhere(*testing.T) int64 { return s.write(nil) }

// Follows registers a feed for which Break waits, and returns the feed. Only in tests does a
// source come back so soon that a feed might miss the break.
func (s *APIServer) Follows(f feed.Feed) feed.Feed {
	s.followers = append(s.followers, f)
	return f
}

// Break implements Source. It returns when the feeds that followed have noticed the break.
func (s *APIServer) Break(t *testing.T) {
	following := slices.DeleteFunc(slices.Clone(s.followers), func(f feed.Feed) bool { return f.Healthy() != nil })
	s.setBroken(true)
	s.Server.CloseClientConnections()
	for began := time.Now(); slices.ContainsFunc(following, func(f feed.Feed) bool { return f.Healthy() == nil }); {
		if time.Since(began) > patience {
			t.Fatal("a feed does not notice that its server is away")
		}
		<-time.After(pollPeriod)
	}
}

// Mend implements Source.
func (s *APIServer) Mend(*testing.T) { s.setBroken(false) }

func (s *APIServer) setBroken(broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.broken = broken
}

// Forget implements Source.
func (s *APIServer) Forget(*testing.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.forgotten = s.mu.revision
}

// Backup implements Source.
func (s *APIServer) Backup(*testing.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.backup, s.mu.backupRevision = slices.Clone(s.mu.log), s.mu.revision
}

// Restore implements Source.
func (s *APIServer) Restore(*testing.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.log, s.mu.revision = slices.Clone(s.mu.backup), s.mu.backupRevision
}

// Key implements Source.
func (s *APIServer) Key(name string) string { return KeyPrefix + namespace + "/" + name }

// Value implements Source.
func (s *APIServer) Value(w Write) string {
	return fmt.Sprintf(`{"apiVersion":"x/v1","kind":"Widget","metadata":{"name":%q,"namespace":%q,"resourceVersion":"%d"},"text":%q}`, w.Name, namespace, w.Revision, w.Text)
}

// snapshot is what the server has at one moment. The log is not changed.
type snapshot struct {
	log                 []Write
	revision, forgotten int64
	moved, ends         <-chan struct{}
}

// snapshot returns what the server has.
func (s *APIServer) snapshot() snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return snapshot{s.mu.log[:len(s.mu.log):len(s.mu.log)], s.mu.revision, s.mu.forgotten, s.mu.moved, s.mu.ends}
}

// objectsAt returns the objects at revision in the order of their keys.
func (s *snapshot) objectsAt(revision int64) []Write {
	present := map[string]Write{}
	for _, w := range s.log {
		if w.Revision > revision {
			break
		}
		if present[w.Name] = w; w.Deleted {
			delete(present, w.Name)
		}
	}
	objects := make([]Write, 0, len(present))
	for _, w := range present {
		objects = append(objects, w)
	}
	slices.SortFunc(objects, func(a, b Write) int { return strings.Compare(a.Name, b.Name) })
	return objects
}

// ServeHTTP serves lists and watches of all objects, or of the objects of the one
// namespace.
func (s *APIServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	broken, intercept := s.mu.broken, s.mu.intercept
	s.mu.Unlock()
	if broken {
		panic(http.ErrAbortHandler)
	}
	if intercept != nil && intercept(w, req) {
		return
	}
	query := req.URL.Query()
	switch {
	case req.URL.Path != CollectionPath && req.URL.Path != namespacedPath:
		http.NotFound(w, req)
	case query.Get("watch") != "":
		s.serveWatch(w, req, query)
	default:
		s.serveList(w, query)
	}
}

// Objects returns the objects as they were some revisions ago, and their revision, for a checkpoint.
func (s *APIServer) Objects(revisionsAgo int64) ([]feed.Object, int64) {
	current := s.snapshot()
	revision := max(current.revision-revisionsAgo, current.forgotten, 1)
	var objects []feed.Object
	for _, w := range current.objectsAt(revision) {
		objects = append(objects, feed.Object{Key: []byte(s.Key(w.Name)), Value: []byte(s.Value(w)), Revision: w.Revision})
	}
	return objects, revision
}
