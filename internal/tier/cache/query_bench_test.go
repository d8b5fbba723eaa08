package cache_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/sharding"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/entry"
)

// BenchmarkSelect selects few of 100,000 objects, by a scan and by an index. It also
// measures how long the index takes to build.
func BenchmarkSelect(b *testing.B) {
	const objects = 100_000
	kvs := make([]feed.Object, objects)
	for i := range kvs {
		kvs[i] = object(fmt.Sprintf("%sns/pod-%06d", pods, i),
			fmt.Sprintf(`{"Labels":{"app":"a%d","slice":"s%d"},"Fields":{"spec.nodeName":"n%d"}}`, i%10, i%500, i%5000), 5)
	}
	shard := mustShard(b, sharding.ShardRangeRequirement{Key: entry.ShardByUID.String(), Start: "0x0000000000000000", End: "0x0400000000000000"})
	for _, c := range []struct {
		name, labels, fields string
		shard                *entry.Shard
		indexFrom            int
	}{
		{"scan", "slice=s7", "", nil, objects + 1},
		{"index 200 of 100000", "slice=s7", "", nil, 1},
		{"index 20 of 100000", "", "spec.nodeName=n7", nil, 1},
		{"scan for a shard of 64", "", "", shard, objects + 1},
		{"index for a shard of 64", "", "", shard, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			cached := newCache(cache.Config{IndexMinScan: c.indexFrom})
			r := cached.Register(cache.Spec{Prefix: pods, Describe: describe})
			loader := cached.BeginLoad()
			loader.Add(b.Context(), kvs)
			loader.End(b.Context(), 10)
			q := &cache.Query{Labels: mustLabels(b, c.labels), Fields: mustFields(b, c.fields), Shard: c.shard}
			for range 2 {
				r.Snapshot().Select(q) // the second one builds an index
			}
			b.ReportAllocs()
			for b.Loop() {
				if r.Snapshot().Select(q).Count == 0 {
					b.Fatal("nothing selected")
				}
			}
		})
	}
	b.Run("make index", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			cached := newCache(cache.Config{IndexMinScan: 1})
			r := cached.Register(cache.Spec{Prefix: pods, Describe: describe})
			loader := cached.BeginLoad()
			loader.Add(b.Context(), kvs)
			loader.End(b.Context(), 10)
			q := &cache.Query{Labels: mustLabels(b, "slice=s7")}
			r.Snapshot().Select(q)
			b.StartTimer()
			r.Snapshot().Select(q)
		}
	})
}
