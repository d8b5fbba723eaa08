package cache_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/tier/cache"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCache(cache.Config{})
		progress := c.Progress()
		waited := make(chan error, 1)
		go func() { waited <- progress.Wait(t.Context(), 10) }()
		c.Progressed(9)
		synctest.Wait()
		select {
		case err := <-waited:
			t.Fatalf("Wait(10) returned %v at revision 9", err)
		default:
		}
		c.Progressed(12)
		if err := <-waited; err != nil {
			t.Fatal(err)
		}
		c.Progressed(11)
		if got := progress.Revision(); got != 12 {
			t.Errorf("revision is %d after a late notification, want 12", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := progress.Wait(ctx, 13); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait(13) = %v, want the context's error", err)
		}
	})
}

// etcd is a source whose answers come from the test.
type etcd struct {
	answers   chan answer
	reads     atomic.Int64
	progress  atomic.Int64
	onRequest func()
}

type answer struct {
	revision int64
	err      error
}

func (e *etcd) Revision(ctx context.Context) (int64, error) {
	e.reads.Add(1)
	select {
	case a := <-e.answers:
		return a.revision, a.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (e *etcd) RequestProgress(context.Context) error {
	e.progress.Add(1)
	if e.onRequest != nil {
		e.onRequest()
	}
	return nil
}

func TestConsistentSharesReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, source := newCache(cache.Config{}), &etcd{answers: make(chan answer)}
		source.onRequest = func() { c.Progressed(20) }
		consistent := cache.NewConsistent(c, source)
		var waiters sync.WaitGroup
		for range 100 {
			waiters.Go(func() {
				if revision, err := consistent.Wait(t.Context()); err != nil || revision < 10 {
					t.Errorf("Wait() = %d, %v, want at least 10", revision, err)
				}
			})
		}
		synctest.Wait()
		if got := source.reads.Load(); got != 1 {
			t.Fatalf("%d reads are under way, want 1", got)
		}
		source.answers <- answer{revision: 10}
		source.answers <- answer{revision: 11}
		waiters.Wait()
		if got := source.reads.Load(); got != 2 {
			t.Fatalf("100 waiters cost %d reads, want 2", got)
		}
		if got := source.progress.Load(); got != 1 {
			t.Errorf("100 waiters cost %d progress requests, want 1", got)
		}
	})
}

// TestConsistentLateReader: a revision read that began before a write was acknowledged
// proves nothing to a reader that comes after the write.
func TestConsistentLateReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, source := newCache(cache.Config{}), &etcd{answers: make(chan answer)}
		c.Progressed(30)
		consistent := cache.NewConsistent(c, source)
		begin := func() <-chan int64 {
			result := make(chan int64, 1)
			go func() {
				revision, err := consistent.Wait(t.Context())
				if err != nil {
					t.Error(err)
				}
				result <- revision
			}()
			synctest.Wait()
			return result
		}
		first, late := begin(), begin()
		source.answers <- answer{revision: 10}
		if got := <-first; got != 10 {
			t.Fatalf("the first reader got %d, want 10", got)
		}
		synctest.Wait()
		select {
		case got := <-late:
			t.Fatalf("the late reader shares the read that began before it, and got %d", got)
		default:
		}
		source.answers <- answer{revision: 20}
		if got := <-late; got != 20 {
			t.Fatalf("the late reader got %d, want 20", got)
		}
	})
}

func TestConsistentError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, source := newCache(cache.Config{}), &etcd{answers: make(chan answer, 1)}
		c.Progressed(30)
		consistent := cache.NewConsistent(c, source)
		broken := errors.New("no leader")
		source.answers <- answer{err: broken}
		if _, err := consistent.Wait(t.Context()); !errors.Is(err, broken) {
			t.Fatalf("Wait() = %v, want the source's error", err)
		}
		source.answers <- answer{revision: 20}
		if revision, err := consistent.Wait(t.Context()); err != nil || revision != 20 {
			t.Fatalf("Wait() = %d, %v after an error, want 20", revision, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := consistent.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Wait() = %v, want the reader's own deadline", err)
		}
		// The shared read ends at a deadline of its own.
		<-time.After(time.Minute)
	})
}

func TestConsistentRepeatsProgressRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, source := newCache(cache.Config{}), &etcd{answers: make(chan answer, 1)}
		source.onRequest = func() {
			if source.progress.Load() == 3 {
				c.Progressed(10)
			}
		}
		source.answers <- answer{revision: 10}
		if _, err := cache.NewConsistent(c, source).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := source.progress.Load(); got != 3 {
			t.Fatalf("%d progress requests, want 3", got)
		}
	})
}

// TestNotify waits for revisions that the feed passes, that etcd has reached without the
// feed, and that etcd has not reached.
func TestNotify(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, source := newCache(cache.Config{}), &etcd{answers: make(chan answer)}
		c.Progressed(10)
		consistent := cache.NewConsistent(c, source)
		var calls atomic.Int64
		count := func() { calls.Add(1) }
		want := func(when string, n int64) {
			t.Helper()
			synctest.Wait()
			if got := calls.Swap(0); got != n {
				t.Fatalf("%s: %d calls, want %d", when, got, n)
			}
		}
		consistent.Notify(10, count)()
		want("reached already", 1)
		if source.reads.Load() > 0 {
			t.Error("etcd is asked about a revision that the cache has")
		}

		var etcdRevision atomic.Int64
		etcdRevision.Store(20)
		source.onRequest = func() { c.Progressed(etcdRevision.Load()) }
		for range 100 {
			consistent.Notify(15, count)
		}
		began := time.Now()
		source.answers <- answer{revision: 20}
		source.answers <- answer{revision: 20}
		want("reached by etcd alone", 100)
		if reads, requests := source.reads.Load(), source.progress.Load(); reads != 2 || requests != 1 || time.Since(began) > 0 {
			t.Errorf("100 waits cost %d reads, %d progress requests and %v; want 2, 1 and no time", reads, requests, time.Since(began))
		}

		for _, revision := range []int64{30, 25, 40} {
			consistent.Notify(revision, count)
		}
		cancel := consistent.Notify(25, count)
		source.answers <- answer{revision: 20}
		source.answers <- answer{revision: 20}
		c.Progressed(24)
		want("not reached yet", 0)
		cancel()
		c.Progressed(25)
		want("reached by the feed", 1)
		etcdRevision.Store(35)
		<-time.After(100 * time.Millisecond)
		want("reached by etcd later, which is asked every 100 ms", 1)
		c.Progressed(50)
		want("reached at last", 1)
		<-time.After(100 * time.Millisecond)
		before := source.progress.Load()
		<-time.After(time.Minute)
		if after := source.progress.Load(); after != before {
			t.Errorf("%d progress requests for nobody", after-before)
		}
	})
}
