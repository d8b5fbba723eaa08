package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
	"github.com/millrace/millrace/test/support/etcdtruth"
	"github.com/millrace/millrace/test/support/harness"
)

// wantsRobustness says that tests may take minutes.
func wantsRobustness() bool { return os.Getenv("MILLRACE_ROBUSTNESS") != "" }

func needRobustness(t *testing.T) {
	t.Helper()
	if !wantsRobustness() {
		t.Skip("takes minutes: MILLRACE_ROBUSTNESS=1 or make robustness runs it")
	}
}

// target is the server that survivors watch. A test exchanges it.
type target struct{ atomic.Pointer[harness.Server] }

// survivor watches config maps of a target as an informer does, and resumes from the last
// revision whenever its watch ends. It keeps all watches.
type survivor struct {
	target *target
	mu     struct {
		sync.Mutex
		watches []*watchcheck.Watch
		expired int
	}
}

// run watches until the context ends, from a revision on.
func (s *survivor) run(ctx context.Context, t *testing.T, revision int64) {
	for ctx.Err() == nil {
		watch, err := s.watchOnce(ctx, t, revision)
		if err != nil {
			pauseFor(ctx, 100*time.Millisecond)
			continue
		}
		if n := len(watch.Frames); n > 0 && watch.Frames[n-1].Type == watchcheck.Error {
			if watch.Frames[n-1].Status.Code != http.StatusGone {
				pauseFor(ctx, 100*time.Millisecond)
				continue
			}
			s.mu.Lock()
			s.mu.expired++
			s.mu.Unlock()
			revision = 0
			continue
		}
		revision = watch.Last()
	}
}

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// watchOnce reads one watch to its end. Revision 0 begins anew.
func (s *survivor) watchOnce(ctx context.Context, t *testing.T, revision int64) (*watchcheck.Watch, error) {
	query := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {fmt.Sprint(revision)}}
	watch := &watchcheck.Watch{Start: watchcheck.Start{Revision: revision, Bookmarks: true}}
	if revision == 0 {
		query.Set("resourceVersion", "")
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", "NotOlderThan")
		watch.Initial, watch.End = true, true
	}
	server := s.target.Load()
	req := must(http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/api/v1/configmaps?"+query.Encode(), nil))(t)
	req.Header.Set("Accept", "application/vnd.kubernetes.protobuf")
	resp, err := server.HTTPClient().Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, notYet("status %d", resp.StatusCode)
	}
	reader, err := watchcheck.NewReader(resp.Body, resp.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.mu.watches = append(s.mu.watches, watch)
	s.mu.Unlock()
	for {
		_, frame, err := reader.Next()
		s.mu.Lock()
		switch {
		case err == nil:
			watch.Frames = append(watch.Frames, frame)
		case ctx.Err() != nil:
		case errors.Is(err, io.EOF):
			watch.Ended = true
		default:
			watch.Err = err
		}
		s.mu.Unlock()
		if err != nil {
			return watch, nil
		}
	}
}

// reached returns the newest revision that the survivor has, and how often it had to begin
// anew.
func (s *survivor) reached() (revision int64, expired int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.mu.watches {
		revision = max(revision, w.Last())
	}
	return revision, s.mu.expired
}

// survivors watch one target while a writer changes config maps at the upstream.
type survivors struct {
	t        *testing.T
	target   target
	follower *etcdtruth.Follower
	watching []*survivor
	written  atomic.Int64
	stop     func()
	end      func()
}

// watchAndWrite starts survivors and a writer. finish ends them.
func watchAndWrite(t *testing.T, etcd *clientv3.Client, writer kubernetes.Interface, at *harness.Server, count int) *survivors {
	t.Helper()
	all := &survivors{t: t}
	all.target.Store(at)
	first := createMaps(t, writer, "first", 1)
	from := must(parseInt(first))(t)
	all.follower = must(etcdtruth.Follow(t.Context(), etcd, []etcdtruth.Resource{{Name: "configmaps", Prefix: "/registry/configmaps/"}}))(t)
	eventually(t, "the first object at the replica", func() error {
		_, err := clientset(t, at.Config()).CoreV1().ConfigMaps("default").Get(t.Context(), "first-00", metav1.GetOptions{ResourceVersion: first})
		return err
	})
	watching, endWatching := context.WithCancel(t.Context())
	writing, endWriting := context.WithCancel(t.Context())
	var watchers, writers sync.WaitGroup
	for range count {
		s := &survivor{target: &all.target}
		all.watching = append(all.watching, s)
		watchers.Go(func() { s.run(watching, t, from) })
	}
	writers.Go(func() { all.write(writing, writer) })
	all.stop = func() { endWriting(); writers.Wait() }
	all.end = func() { endWatching(); watchers.Wait() }
	t.Cleanup(func() { all.stop(); all.end() })
	return all
}

// write changes config maps until the context ends. Errors are the test's faults.
func (all *survivors) write(ctx context.Context, client kubernetes.Interface) {
	maps := client.CoreV1().ConfigMaps("default")
	for i := 0; ctx.Err() == nil; i++ {
		pauseFor(ctx, 20*time.Millisecond)
		cm := configMap(fmt.Sprintf("churn-%d", i%7))
		cm.Data["count"] = fmt.Sprint(i)
		bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := maps.Update(bounded, cm, metav1.UpdateOptions{})
		if err != nil {
			_, err = maps.Create(bounded, cm, metav1.CreateOptions{})
		}
		if i%50 == 49 {
			err = maps.Delete(bounded, cm.Name, metav1.DeleteOptions{})
		}
		cancel()
		if err == nil {
			all.written.Add(1)
		}
	}
}

// finish ends the writer, waits until every survivor has its last write, and validates all
// watches: nothing is lost, repeated, or out of order, also over resumed watches.
func (all *survivors) finish(writer kubernetes.Interface, maxExpired int) {
	t := all.t
	t.Helper()
	all.stop()
	last := must(parseInt(createMaps(t, writer, fmt.Sprint("last-", time.Now().Unix()), 1)))(t)
	for i, s := range all.watching {
		eventually(t, "the last write at each survivor", func() error {
			if got, _ := s.reached(); got < last {
				return notYet("survivor %d has %d of %d", i, got, last)
			}
			return nil
		})
	}
	all.end()
	if err := all.follower.Wait(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	truth := all.follower.Truth("configmaps")
	watches := 0
	for i, s := range all.watching {
		for j, w := range s.mu.watches {
			watches++
			if err := watchcheck.Validate(truth, w); err != nil {
				t.Errorf("survivor %d, watch %d from %d: %v", i, j, w.Revision, err)
			}
			if j > 0 && w.Revision > 0 && w.Revision < s.mu.watches[j-1].Revision {
				t.Errorf("survivor %d went back from %d to %d", i, s.mu.watches[j-1].Revision, w.Revision)
			}
		}
		if err := watchcheck.Converged(truth, s.mu.watches); err != nil {
			t.Errorf("survivor %d: %v", i, err)
		}
		if s.mu.expired > maxExpired {
			t.Errorf("survivor %d had to begin anew %d times, want at most %d", i, s.mu.expired, maxExpired)
		}
	}
	t.Logf("%d writes, %d changes, %d watches", all.written.Load(), len(truth.Changes), watches)
}
