package robustness

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
	"github.com/millrace/millrace/test/support/etcdtruth"
	"github.com/millrace/millrace/test/support/harness"
)

const (
	watchSeedVariable = "MILLRACE_SEED"
	watchers          = 100
	// faultInterval is the time between two faults.
	faultInterval  = 6 * time.Second
	deliverTimeout = time.Minute
	probes         = 100
	probesAtOnce   = 16
)

// stress holds the servers, clients and writers of the test, and the recorded
// watches.
type stress struct {
	t        *testing.T
	random   *rand.Rand
	etcd     *harness.Etcd
	server   *harness.Server
	client   *clientv3.Client
	follower *etcdtruth.Follower
	watchers []*watcher
	churn    *churn
	hurry    atomic.Bool
}

// TestWatchesUnderFaults lets 100 clients watch objects that are written all
// the time. Meanwhile it kills and pauses the server and etcd, and compacts
// etcd. Afterwards it validates all events that the clients received.
func TestWatchesUnderFaults(t *testing.T) {
	needSwitch(t)
	seed := rand.Uint64()
	if given := os.Getenv(watchSeedVariable); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("%s: %v", watchSeedVariable, err)
		}
	}
	t.Logf("repeat with %s=%d", watchSeedVariable, seed)
	s := newStress(t, seed)
	watching, stopWatching := context.WithCancel(t.Context())
	writing, stopWriting := context.WithCancel(t.Context())
	defer stopWatching()
	defer stopWriting()
	var clients, churning sync.WaitGroup
	for _, w := range s.watchers {
		clients.Go(func() { w.run(watching, t) })
	}
	for range writers {
		r := s.fork()
		churning.Go(func() { s.churn.run(writing, r) })
	}
	together, r := 0, s.fork()
	churning.Go(func() { together = transactions(writing, t, s.client, r) })

	s.faults()
	after(t, faultInterval)
	stopWriting()
	churning.Wait()
	through := s.revision()
	s.delivered(through)
	stopWatching()
	clients.Wait()
	t.Logf("%d writes, %d failed, %d transactions of several objects, up to revision %d", s.churn.done.Load(), s.churn.failed.Load(), together, through)
	s.validate()
	s.resume()
}

func newStress(t *testing.T, seed uint64) *stress {
	s := &stress{t: t, random: rand.New(rand.NewPCG(seed, 0)), etcd: harness.StartEtcd(t)}
	s.server = harness.Start(t, harness.ShortTempDir(t), "--etcd-servers="+s.etcd.Endpoint)
	var err error
	if s.client, err = clientv3.New(clientv3.Config{Endpoints: []string{s.etcd.Endpoint}, DialTimeout: patience}); err != nil {
		t.Fatalf("open etcd client: %v", err)
	}
	t.Cleanup(func() { _ = s.client.Close() })
	s.churn = &churn{base: s.server.URL, client: s.server.HTTPClient()}
	for _, ns := range stressNamespaces {
		s.make("/api/v1/namespaces", ns)
		s.make("/api/v1/namespaces/"+ns+"/serviceaccounts", "default")
	}
	for range 200 {
		_ = s.churn.write(t.Context(), s.random)
	}
	var resources []etcdtruth.Resource
	for _, k := range stressedKinds {
		resources = append(resources, k.Resource)
	}
	if s.follower, err = etcdtruth.Follow(t.Context(), s.client, resources); err != nil {
		t.Fatal(err)
	}
	var clients []*http.Client
	for i := range 6 {
		clients = append(clients, s.server.HTTPClient())
		if transport := clients[i].Transport.(*http.Transport); i%3 == 2 {
			transport.ForceAttemptHTTP2, transport.TLSClientConfig.NextProtos = false, []string{"http/1.1"}
			transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
		}
	}
	now := s.revision()
	for range watchers {
		w := newWatcher(s.random, s.server.URL, clients, now)
		w.hurry = &s.hurry
		s.watchers = append(s.watchers, w)
	}
	return s
}

// make creates an object that the writers need. It retries until the server
// knows the object's namespace.
func (s *stress) make(path, name string) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := s.churn.send(s.t.Context(), http.MethodPost, path, map[string]any{"metadata": map[string]any{"name": name}})
		if err == nil || err == error(errRefused{http.StatusConflict}) {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("make %s: %v", path, err)
		}
		after(s.t, resumePause)
	}
}

func (s *stress) fork() *rand.Rand { return rand.New(rand.NewPCG(s.random.Uint64(), 0)) }

func (s *stress) revision() int64 {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	resp, err := s.client.Get(ctx, "/", clientv3.WithCountOnly())
	if err != nil {
		s.t.Fatalf("read revision: %v", err)
	}
	return resp.Header.Revision
}

// faults causes each fault twice, in random order.
func (s *stress) faults() {
	all := []struct {
		name string
		do   func()
	}{
		{"server killed", func() { s.server.Kill(); s.server = s.server.Restart() }},
		{"server terminated", func() {
			if err := s.server.Terminate(); err != nil {
				s.t.Errorf("server: %v", err)
			}
			s.server = s.server.Restart()
		}},
		{"etcd paused", func() { s.paused(s.etcd.Process, func() { after(s.t, time.Duration(1+s.random.IntN(8))*time.Second) }) }},
		{"etcd compacted", s.compact},
		{"etcd killed", func() { s.etcd.Kill(); s.etcd = s.etcd.Restart() }},
		{"server paused while etcd is compacted", func() {
			s.paused(s.server.Process, func() {
				after(s.t, 2*time.Second)
				s.compact()
			})
		}},
		{"server killed, and etcd is compacted before it is back", func() {
			s.server.Kill()
			s.compact()
			s.server = s.server.Restart()
		}},
	}
	for range 2 {
		for _, i := range s.random.Perm(len(all)) {
			after(s.t, faultInterval)
			start := time.Now()
			all[i].do()
			s.t.Logf("%s, at revision %d, took %v", all[i].name, s.revision(), time.Since(start).Round(time.Millisecond))
		}
	}
}

// paused calls do while the process is stopped.
func (s *stress) paused(p *harness.Process, do func()) {
	p.Signal(syscall.SIGSTOP)
	defer p.Signal(syscall.SIGCONT)
	do()
}

func (s *stress) compact() {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if _, err := s.client.Compact(ctx, s.revision()); err != nil {
		s.t.Errorf("compact: %v", err)
	}
}

// delivered waits until each client has received the last event that its
// selection includes.
func (s *stress) delivered(through int64) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), deliverTimeout)
	defer cancel()
	s.hurry.Store(true)
	if err := s.follower.Wait(ctx, through); err != nil {
		s.t.Fatal(err)
	}
	for _, w := range s.watchers {
		truth := s.follower.Truth(w.kind.Name)
		last := int64(0)
		for _, e := range truth.ExpectedEvents(&w.start.Selection, truth.From, through) {
			last = e.Revision
		}
		for seen := w.newest(); seen < last; seen = w.newest() {
			if ctx.Err() != nil {
				s.t.Errorf("%s has seen %d after %v, want %d", w, seen, deliverTimeout, last)
				break
			}
			after(s.t, 20*time.Millisecond)
		}
	}
}

// validate checks all watches of all clients.
func (s *stress) validate() {
	truths := map[string]*watchcheck.Truth{}
	events, bookmarks, count, expired, refused, worst := 0, 0, 0, 0, map[string]int{}, 0
	for _, w := range s.watchers {
		truth := truths[w.kind.Name]
		if truth == nil {
			truth = s.follower.Truth(w.kind.Name)
			truths[w.kind.Name] = truth
		}
		for i, watch := range w.mu.watches {
			if err := watchcheck.Validate(truth, watch); err != nil && worst < 20 {
				worst++
				s.t.Errorf("%s, watch %d of %d from %d, ended %t, %v:\n%v", w, i+1, len(w.mu.watches), watch.Start.Revision, watch.Ended, watch.Err, err)
			}
			for j := range watch.Frames {
				if watch.Frames[j].Type == watchcheck.Bookmark {
					bookmarks++
				} else {
					events++
				}
			}
		}
		if err := watchcheck.Converged(truth, w.mu.watches); err != nil {
			s.t.Errorf("%s: %v", w, err)
		}
		count, expired = count+len(w.mu.watches), expired+w.mu.expired
		for why, n := range w.mu.refused {
			refused[why] += n
		}
	}
	s.t.Logf("%d clients had %d watches with %d events and %d bookmarks; %d expired; tried again: %v", len(s.watchers), count, events, bookmarks, expired, refused)
	if events < 1000 || bookmarks < 10 {
		s.t.Errorf("%d events and %d bookmarks are too few to mean something", events, bookmarks)
	}
}

// resume opens watches from events and bookmarks that clients received. It
// compares the events of these watches with the events that the clients
// received after those points.
func (s *stress) resume() {
	var resumed, expired atomic.Int64
	var probing sync.WaitGroup
	places := make(chan resumePoint)
	for range probesAtOnce {
		probing.Go(func() {
			for p := range places {
				switch gone, err := s.probe(p); {
				case err != nil:
					s.t.Errorf("%s, resumed from %s: %v", p.watcher, &p.frame, err)
				case gone:
					expired.Add(1)
				default:
					resumed.Add(1)
				}
			}
		})
	}
	for n := 0; n < 20*probes && resumed.Load() < probes; n++ {
		if p, ok := s.resumePoint(); ok {
			places <- p
		}
	}
	close(places)
	probing.Wait()
	s.t.Logf("%d watches were resumed from what clients saw; %d places had expired", resumed.Load(), expired.Load())
	if resumed.Load() < probes/4 {
		s.t.Errorf("only %d watches could be resumed", resumed.Load())
	}
}

// resumePoint is a frame that a client received, as a point to resume from.
type resumePoint struct {
	watcher *watcher
	watch   *watchcheck.Watch
	frame   watchcheck.Frame
}

// resumePoint chooses a random frame. It prefers each client's last watch, whose
// revisions have not expired.
func (s *stress) resumePoint() (p resumePoint, ok bool) {
	p.watcher = choose(s.random, s.watchers...)
	watches := p.watcher.mu.watches
	if len(watches) == 0 {
		return p, false
	}
	p.watch = choose(s.random, watches[len(watches)-1], choose(s.random, watches...))
	if end := p.watch.Last(); end == 0 || len(p.watch.Frames) == 0 {
		return p, false
	}
	p.frame = choose(s.random, p.watch.Frames...)
	return p, p.frame.Type != watchcheck.Error && p.frame.Revision >= begun(p.watch)
}

func (s *stress) probe(p resumePoint) (gone bool, err error) {
	w := p.watcher
	again := &watcher{url: w.url, client: w.client, accept: w.accept, kind: w.kind, start: w.start, query: w.query, hurry: &s.hurry}
	watch, err := again.watchOnce(s.t.Context(), p.frame.Revision, 1)
	if err != nil {
		return false, err
	}
	if n := len(watch.Frames); n > 0 && watch.Frames[n-1].Type == watchcheck.Error {
		if status := watch.Frames[n-1].Status; n != 1 || status.Code != http.StatusGone {
			return false, fmt.Errorf("%d %s: %s", status.Code, status.Reason, status.Message)
		}
		return true, nil
	}
	return false, errors.Join(watchcheck.Validate(s.follower.Truth(w.kind.Name), watch), watchcheck.Resumable(p.watch, watch))
}

// begun returns the revision after which a watch's events are changes and not
// initial events.
func begun(w *watchcheck.Watch) int64 {
	for i := range w.Frames {
		if w.Frames[i].InitialEnd {
			return w.Frames[i].Revision
		}
	}
	return w.Start.Revision
}
