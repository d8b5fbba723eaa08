package watch_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/sharding"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/watch"
	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
)

// benchWatches are watches that are driven in the benchmark's goroutine.
type benchWatches struct {
	cache   *cache.Cache
	hub     *watch.Hub
	woken   []*watch.Cursor
	changes []encode.Change
}

func newBench(b *testing.B, n int, filter func(int) watch.Filter) *benchWatches {
	b.Helper()
	w := &benchWatches{cache: cache.New(cache.Config{HistoryBytes: 1 << 20})}
	w.hub = watch.NewHub(w.cache.Register(cache.Spec{Prefix: prefix, Describe: describe}))
	w.cache.BeginLoad().End(b.Context(), begin)
	for i := range n {
		var c *watch.Cursor
		var err error
		if c, err = w.hub.Open(filter(i), begin, func() { w.woken = append(w.woken, c) }); err != nil {
			b.Fatal(err)
		}
		if _, _, err := c.Next(nil); err != nil {
			b.Fatal(err)
		}
	}
	return w
}

// step applies an event, and reads with all cursors that it wakes.
func (w *benchWatches) step(b *testing.B, key, value string, revision int64) {
	w.cache.Apply(b.Context(), []feed.Object{{Key: []byte(prefix + key), Value: []byte(value), Revision: revision}})
	woken := w.woken
	w.woken = w.woken[:0:0]
	for _, c := range woken {
		for more := true; more; {
			var err error
			if w.changes, more, err = c.Next(w.changes[:0]); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkAll dispatches an event to watches of everything.
func BenchmarkAll(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newBench(b, n, func(int) watch.Filter { return watch.Filter{} })
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				w.step(b, "a/x", "app=web", int64(begin+1+i))
			}
		})
	}
}

// BenchmarkNodes dispatches an event to one of many watches, each of one node.
func BenchmarkNodes(b *testing.B) {
	for _, n := range []int{1000, 8000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newBench(b, n, func(i int) watch.Filter {
				return watch.Filter{Fields: fields.OneTermEqualSelector("node", fmt.Sprint(i))}
			})
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				w.step(b, fmt.Sprintf("a/%d", i%n), fmt.Sprintf("app=web/node=%d", i%n), int64(begin+1+i))
			}
		})
	}
}

// BenchmarkNames dispatches an event to one of many watches, each of one object.
func BenchmarkNames(b *testing.B) {
	for _, n := range []int{1000, 8000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newBench(b, n, func(i int) watch.Filter {
				return watch.Filter{Scope: cache.Scope{Prefix: fmt.Sprintf("a/%d", i), Single: true}}
			})
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				w.step(b, fmt.Sprintf("a/%d", i%n), "app=web", int64(begin+1+i))
			}
		})
	}
}

// BenchmarkShards dispatches an event to one of many watches, each of a shard, or to a
// watch of everything.
func BenchmarkShards(b *testing.B) {
	for _, n := range []int{1, 16, 64, 4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			size := uint64(1) << 63 / uint64(n) * 2
			w := newBench(b, n, func(i int) watch.Filter {
				if n == 1 {
					return watch.Filter{}
				}
				end := "0x10000000000000000"
				if i < n-1 {
					end = fmt.Sprintf("0x%016x", uint64(i+1)*size)
				}
				s, err := entry.NewShard(sharding.NewSelector(sharding.ShardRangeRequirement{Key: "object.metadata.uid", Start: fmt.Sprintf("0x%016x", uint64(i)*size), End: end}))
				if err != nil {
					b.Fatal(err)
				}
				return watch.Filter{Shard: s}
			})
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				w.step(b, fmt.Sprintf("a/%d", i%5000), fmt.Sprintf("app=web#%x", i%16), int64(begin+1+i))
			}
		})
	}
}
