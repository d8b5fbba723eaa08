package watch_test

import (
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/encode"
	"github.com/millrace/millrace/internal/watch"
)

// benchWatches are watches that are driven in the benchmark's goroutine.
type benchWatches struct {
	cache   *cache.Cache
	hub     *watch.Hub
	woken   []*watch.Cursor
	changes []encode.Change
}

func newBench(b *testing.B, n int, selection func(int) watch.Selection) *benchWatches {
	b.Helper()
	x := &benchWatches{cache: cache.New(cache.Config{HistoryBytes: 1 << 20})}
	x.hub = watch.NewHub(x.cache.Register(cache.Spec{Prefix: prefix, Describe: describe}))
	x.cache.BeginLoad().End(b.Context(), begin)
	for i := range n {
		var c *watch.Cursor
		var err error
		if c, err = x.hub.Open(selection(i), begin, func() { x.woken = append(x.woken, c) }); err != nil {
			b.Fatal(err)
		}
		if _, _, err := c.Next(nil); err != nil {
			b.Fatal(err)
		}
	}
	return x
}

// step applies an event and lets all read that it woke.
func (x *benchWatches) step(b *testing.B, key, value string, revision int64) {
	x.cache.Apply(b.Context(), []*clientv3.Event{{Kv: &mvccpb.KeyValue{Key: []byte(prefix + key), Value: []byte(value), ModRevision: revision, Version: 1}}})
	woken := x.woken
	x.woken = x.woken[:0:0]
	for _, c := range woken {
		for more := true; more; {
			var err error
			if x.changes, more, err = c.Next(x.changes[:0]); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkAll tells an event to watches of everything.
func BenchmarkAll(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x := newBench(b, n, func(int) watch.Selection { return watch.Selection{} })
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				x.step(b, "a/x", "app=web", int64(begin+1+i))
			}
		})
	}
}

// BenchmarkNodes tells an event to one of many watches that have a node each.
func BenchmarkNodes(b *testing.B) {
	for _, n := range []int{1000, 8000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x := newBench(b, n, func(i int) watch.Selection {
				return watch.Selection{Fields: fields.OneTermEqualSelector("node", fmt.Sprint(i))}
			})
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				x.step(b, fmt.Sprintf("a/%d", i%n), fmt.Sprintf("app=web/node=%d", i%n), int64(begin+1+i))
			}
		})
	}
}

// BenchmarkNames tells an event to one of many watches that have an object each.
func BenchmarkNames(b *testing.B) {
	for _, n := range []int{1000, 8000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x := newBench(b, n, func(i int) watch.Selection {
				return watch.Selection{Scope: cache.Scope{Prefix: fmt.Sprintf("a/%d", i), Single: true}}
			})
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				x.step(b, fmt.Sprintf("a/%d", i%n), "app=web", int64(begin+1+i))
			}
		})
	}
}
