package injection

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/conn/watchclient"
	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
	"github.com/millrace/millrace/internal/wire/watchevent"
	"github.com/millrace/millrace/test/support/harness"
)

// fleet is programs that read at the servers of one depth. Each has an informer of each
// resource on one connection. When that breaks, the program goes on at another server.
type fleet struct {
	ctx       context.Context
	servers   []*watchclient.Server
	resources []watchedResource
	programs  []*program
	// keys are the names of objects, which all informers share.
	keys sync.Map
	over atomic.Bool
	// synced counts informers that have all objects, and events what all have received.
	synced, events atomic.Int64
	// moved counts watches that broke, ended those that the server ended in good order, and
	// refused those that it did not begin. expired counts those that lost their place: the
	// informer then begins anew.
	moved, ended, refused, expired atomic.Int64
}

// watchCounts are the counts of a fleet's watches.
type watchCounts struct{ moved, ended, refused, expired int64 }

func (f *fleet) counts() watchCounts {
	return watchCounts{f.moved.Load(), f.ended.Load(), f.refused.Load(), f.expired.Load()}
}

// since is the difference of two counts.
func (c watchCounts) since(before watchCounts) watchCounts {
	return watchCounts{c.moved - before.moved, c.ended - before.ended, c.refused - before.refused, c.expired - before.expired}
}

// program is one of a fleet.
type program struct {
	*fleet
	identity  watchclient.Identity
	accept    string
	informers []*informer
	mu        struct {
		sync.Mutex
		// at is the server at which the program reads. clients has one for each server at
		// which it has been.
		at      int
		clients []*watchclient.Client
	}
}

const (
	acceptJSON     = "application/json"
	acceptProtobuf = "application/vnd.kubernetes.protobuf"
	// handshakes is how many connections to a server are opened at once.
	handshakes = 8
	// retryAfter is the pause after a watch that broke or was refused.
	retryAfter = 300 * time.Millisecond
)

// wave is how many programs begin at once.
const wave = 100

// startFleet has so many programs read at some nodes, in turn, and waits until each informer
// has all objects. Half of the programs read JSON, and half protobuf.
func (c *cluster) startFleet(t *testing.T, nodes []*node, programs int) *fleet {
	t.Helper()
	f := &fleet{ctx: t.Context(), resources: watchedResources()}
	for _, n := range nodes {
		server, err := watchclient.NewServer(c.config(c.ports[n.name]), handshakes)
		if err != nil {
			t.Fatal(err)
		}
		f.servers = append(f.servers, server)
	}
	t.Cleanup(f.close)
	for i := range programs {
		p := &program{fleet: f, accept: acceptJSON, identity: watchclient.Identity{UserAgent: fleetAgent}}
		if i/len(nodes)%2 == 1 {
			p.accept = acceptProtobuf
		}
		p.mu.at, p.mu.clients = i%len(nodes), make([]*watchclient.Client, len(nodes))
		for r := range f.resources {
			n := &informer{program: p, resource: r}
			n.mu.stretches = []*stretch{newStretch()}
			p.informers = append(p.informers, n)
		}
		f.programs = append(f.programs, p)
	}
	begun := int64(0)
	for together := range slices.Chunk(f.programs, wave) {
		for _, p := range together {
			for _, n := range p.informers {
				n.begin()
			}
		}
		begun += int64(len(together) * len(f.resources))
		err := harness.Until(readyTimeout, func() error {
			if got := f.synced.Load(); got < begun {
				return fmt.Errorf("%d of %d informers have all objects", got, begun)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// informers are those of all programs.
func (f *fleet) informers(yield func(*informer) bool) {
	for _, p := range f.programs {
		for _, n := range p.informers {
			if !yield(n) {
				return
			}
		}
	}
}

// await waits until each informer has got past a revision of its resource.
func (f *fleet) await(revisions []int64) error {
	return harness.Until(readyTimeout, func() error {
		for n := range f.informers {
			if got, want := n.reached.Load(), revisions[n.resource]; got < want {
				return fmt.Errorf("an informer of %s is at %d, and not at %d", f.resources[n.resource].name, got, want)
			}
		}
		return nil
	})
}

// close ends all watches, and has none begin. What informers have got may be read then.
func (f *fleet) close() {
	f.over.Store(true)
	var closing sync.WaitGroup
	for _, p := range f.programs {
		p.mu.Lock()
		for _, client := range p.mu.clients {
			if client != nil {
				closing.Go(client.Close)
			}
		}
		p.mu.Unlock()
	}
	closing.Wait()
}

// client returns the client with which the program reads, and the number of its server. It is
// nil once the fleet has ended: close may have closed all clients already.
func (p *program) client() (*watchclient.Client, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over.Load() {
		return nil, p.mu.at
	}
	if p.mu.clients[p.mu.at] == nil {
		p.mu.clients[p.mu.at] = p.servers[p.mu.at].NewClient(p.ctx, func(int) {})
	}
	return p.mu.clients[p.mu.at], p.mu.at
}

// leave has the program read at the next server, unless it does already.
func (p *program) leave(server int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.at == server {
		p.mu.at = (server + 1) % len(p.servers)
	}
}

// informer follows one resource. It is the handler of its present watch. Only one of its
// methods runs at a time, but for reached.
type informer struct {
	*program
	resource int
	// reached is the revision of the last event or bookmark.
	reached atomic.Int64
	mu      struct {
		sync.Mutex
		// stretches are what it has got, each from a beginning with all objects on.
		stretches []*stretch
		server    int
		status    int
		// failed says that the watch has ended with an error, and expired that it was 410.
		failed, expired bool
		reader          watchevent.Reader
	}
}

// stretch is what an informer has got from a beginning with all objects on.
type stretch struct {
	// began is the revision of the bookmark behind all objects, 0 before it.
	began int64
	// last is the revision of the last event or bookmark.
	last    int64
	objects map[watchcheck.Key]int64
	// events are those behind the beginning.
	events []seenEvent
	// faults are broken promises that show without the truth.
	faults []string
}

func newStretch() *stretch { return &stretch{objects: map[watchcheck.Key]int64{}} }

// seenEvent is the revision of an event, and its type in the last two bits.
type seenEvent int64

var eventTypes = []string{watchevent.Added, watchevent.Modified, watchevent.Deleted}

func newSeenEvent(revision int64, kind string) seenEvent {
	return seenEvent(revision<<2 | int64(slices.Index(eventTypes, kind)))
}

func (e seenEvent) revision() int64 { return int64(e) >> 2 }

func (e seenEvent) String() string { return fmt.Sprint(eventTypes[e&3], " ", e.revision()) }

// begin opens the next watch, unless the fleet has ended.
func (n *informer) begin() {
	client, server := n.client()
	if client == nil {
		return
	}
	n.mu.Lock()
	now := n.mu.stretches[len(n.mu.stretches)-1]
	query := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {"3600"}}
	if now.began == 0 {
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", "NotOlderThan")
		clear(now.objects)
	} else {
		query.Set("resourceVersion", strconv.FormatInt(now.last, 10))
	}
	n.mu.status, n.mu.failed, n.mu.expired, n.mu.server = 0, false, false, server
	n.mu.Unlock()
	client.Start(&watchclient.Request{
		Method: http.MethodGet, URI: n.resources[n.resource].collection() + "?" + query.Encode(), Accept: n.accept, Identity: &n.identity,
	}, n)
}

// Header implements watchclient.Handler.
func (n *informer) Header(h watchclient.Header) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.status, n.mu.reader = h.Status, watchevent.Reader{Form: watchevent.FormOf(h.ContentType)}
}

// Data implements watchclient.Handler.
func (n *informer) Data(p []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.status != http.StatusOK {
		return
	}
	now := n.mu.stretches[len(n.mu.stretches)-1]
	if err := n.mu.reader.Feed(p, func(e *watchevent.Event) { n.takeLocked(now, e) }); err != nil {
		now.fault("%v", err)
	}
}

// End implements watchclient.Handler. It opens the next watch: at once if the server ended this one
// in good order, and at another server if the connection broke.
func (n *informer) End(err error) {
	n.mu.Lock()
	pause := retryAfter
	switch {
	case n.over.Load():
	case n.mu.expired || n.mu.status == http.StatusGone:
		n.expired.Add(1)
		n.mu.stretches = append(n.mu.stretches, newStretch())
	case err != nil:
		n.moved.Add(1)
		n.leave(n.mu.server)
	case n.mu.status != http.StatusOK || n.mu.failed:
		n.refused.Add(1)
	default:
		n.ended.Add(1)
		pause = 0
	}
	n.mu.Unlock()
	time.AfterFunc(pause, n.begin)
}

// takeLocked takes an event or bookmark.
func (n *informer) takeLocked(now *stretch, e *watchevent.Event) {
	if e.Type == watchevent.Error {
		reason := string(watchevent.Text(watchevent.Member(e.Object, "reason")))
		if n.mu.reader.Form == watchevent.Protobuf {
			reason = string(watchevent.Field(e.Object, 4))
		}
		n.mu.failed, n.mu.expired = true, reason == "Expired" || reason == "Gone"
		return
	}
	revision, err := strconv.ParseInt(string(e.Revision), 10, 64)
	switch {
	case err != nil:
		now.fault("%s without a revision: %v", e.Type, err)
		return
	case e.Type == watchevent.Bookmark && now.began == 0:
		if e.EndsInitial() {
			now.began = revision
			n.synced.Add(1)
		}
	case e.Type == watchevent.Bookmark:
		if revision < now.last {
			now.fault("a bookmark of %d behind %d", revision, now.last)
		}
	case now.began == 0:
		now.objects[n.key(e)] = revision
		return
	default:
		n.events.Add(1)
		now.take(e.Type, n.key(e), revision)
	}
	now.last = revision
	n.reached.Store(revision)
}

// take takes an event behind the beginning.
func (s *stretch) take(kind string, key watchcheck.Key, revision int64) {
	if _, there := s.objects[key]; there == (kind == watchevent.Added) || revision <= s.last {
		s.fault("%s %s %d behind %d, and the object was there: %v", kind, key, revision, s.last, there)
	}
	if s.events = append(s.events, newSeenEvent(revision, kind)); kind == watchevent.Deleted {
		delete(s.objects, key)
	} else {
		s.objects[key] = revision
	}
}

// maxFaults is how many faults a stretch keeps.
const maxFaults = 3

func (s *stretch) fault(format string, args ...any) {
	if len(s.faults) < maxFaults {
		s.faults = append(s.faults, fmt.Sprintf(format, args...))
	}
}

// key is the name of an event's object.
func (n *informer) key(e *watchevent.Event) watchcheck.Key {
	var namespace, name []byte
	if n.mu.reader.Form == watchevent.Protobuf {
		meta := watchevent.Field(e.Object, 1)
		name, namespace = watchevent.Field(meta, 1), watchevent.Field(meta, 3)
	} else {
		meta := watchevent.Member(e.Object, "metadata")
		name, namespace = watchevent.Text(watchevent.Member(meta, "name")), watchevent.Text(watchevent.Member(meta, "namespace"))
	}
	key := watchcheck.Key{Namespace: string(namespace), Name: string(name)}
	shared, _ := n.keys.LoadOrStore(key, key)
	return shared.(watchcheck.Key)
}
