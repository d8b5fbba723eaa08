package checkpoint_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/tier/checkpoint"
)

// benchmarkObjects have the size of large pods, and as much in common.
const benchmarkObjects, benchmarkSize = 10_000, 17 << 10

func benchmarkCache(b *testing.B) *cache.Cache {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	words := make([]string, 2000)
	for i := range words {
		words[i] = fmt.Sprintf("f:word%d: %x", i, random.Uint64())
	}
	c := cache.New(cache.Config{})
	register(c, nil)
	load := c.BeginLoad()
	for i := 0; i < benchmarkObjects; i += 250 {
		var page []feed.Object
		for j := range 250 {
			value := fmt.Appendf(nil, "pod %d %x ", i+j, random.Uint64())
			for n := random.IntN(100); len(value) < benchmarkSize; n++ {
				value = append(value, words[n%len(words)]...)
				if n%20 == 0 {
					value = fmt.Appendf(value, "%x", random.Uint64())
				}
			}
			page = append(page, present(fmt.Sprintf("/registry/pods/ns/%06d", i+j), string(value), int64(i+j+1)))
		}
		load.Add(context.Background(), page)
	}
	load.End(context.Background(), benchmarkObjects)
	return c
}

// BenchmarkCheckpoint writes and loads 10,000 objects of 17 KB.
func BenchmarkCheckpoint(b *testing.B) {
	c := benchmarkCache(b)
	held, err := c.Contents()
	if err != nil {
		b.Fatal(err)
	}
	dir, err := checkpoint.OpenDir(filepath.Join(b.TempDir(), "checkpoints"))
	if err != nil {
		b.Fatal(err)
	}
	order := &checkpoint.Order{Source: source, Contents: held}
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			size, err := dir.Write(b.Context(), "pods", order)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(size)/benchmarkObjects, "bytes/object")
		}
	})
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			to := cache.New(cache.Config{})
			register(to, nil)
			if err := loadInto(b.Context(), dir, to); err != nil {
				b.Fatal(err)
			}
		}
	})
}
