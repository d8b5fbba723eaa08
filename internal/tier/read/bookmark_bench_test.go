package read_test

import (
	"bufio"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/account/slo"
	"github.com/millrace/millrace/test/support/benchclient"
)

const frequentBookmarks = "&allowWatchBookmarks=true&millraceBookmarkInterval=100ms"

// BenchmarkBookmarks lets 1,000 watches of a quiet resource ask for ten bookmarks a second.
// An operation is one bookmark to each. The revision stays as it is, or moves forward a
// hundred times a second.
func BenchmarkBookmarks(b *testing.B) {
	for _, s := range []watchShape{{20, 50}, {1000, 1}} {
		for _, moving := range []bool{false, true} {
			b.Run(fmt.Sprintf("connections=%d/moving=%v", s.conns, moving), func(b *testing.B) {
				env := s.newDeliverer(b, slo.NewWatches(slo.Config{}), frequentBookmarks)
				if moving {
					ticker := time.NewTicker(10 * time.Millisecond)
					defer ticker.Stop()
					stop := make(chan struct{})
					defer close(stop)
					go func() {
						for revision := int64(cacheRevision); ; revision++ {
							select {
							case <-ticker.C:
								env.cache.Progressed(revision)
							case <-stop:
								return
							}
						}
					}()
				}
				env.receive(b, 10)
				var costs []float64
				began := time.Now()
				b.ResetTimer()
				for range b.N {
					before := benchclient.CPU()
					env.receive(b, 1)
					costs = append(costs, float64(benchclient.CPU()-before)/float64(s.watches()))
				}
				b.ReportMetric(median(costs), "cpu-ns/bookmark")
				b.ReportMetric(quantile(costs, 0.1), "p10-cpu-ns/bookmark")
				b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "bookmarks/s/watch")
			})
		}
	}
}

// receive waits until all watches together have n times as many lines as there are watches.
func (env *deliverer) receive(b *testing.B, n int) {
	for range n {
		if _, err := env.rounds.ReadString('\n'); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBookmarkAtRevision lets a watch wait for a revision, alone or beside 1,000
// watches with ten bookmarks a second. It measures the time from the feed's passing the
// revision until the client has the bookmark.
func BenchmarkBookmarkAtRevision(b *testing.B) {
	for _, beside := range []bool{false, true} {
		b.Run(fmt.Sprintf("beside=%v", beside), func(b *testing.B) {
			var env *accountedServer
			if beside {
				env = watchShape{20, 50}.newDeliverer(b, slo.NewWatches(slo.Config{}), frequentBookmarks).accountedServer
			} else {
				env = newAccounted(b, "HTTP/2")
				env.load(b, "a/one")
			}
			var waits []float64
			for i := range b.N {
				waits = append(waits, env.awaitRevision(b, int64(cacheRevision+1+2*i)))
			}
			b.ReportMetric(quantile(waits, 0.5), "p50-ms")
			b.ReportMetric(quantile(waits, 0.99), "p99-ms")
			b.ReportMetric(quantile(waits, 1), "max-ms")
		})
	}
}

// awaitRevision opens a watch that waits for the revision after that of an event. It
// returns the milliseconds from that revision until the bookmark.
func (env *accountedServer) awaitRevision(b *testing.B, event int64) float64 {
	target := fmt.Sprintf("%s%s?watch=true&resourceVersion=%d&allowWatchBookmarks=true&millraceBookmarkAtRevision=%d", env.server.URL, listPath, event-1, event+1)
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, target, nil)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := env.server.Client().Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	// A watch that was sent an event waits for its bookmark.
	env.change(b, "a/one", "x", event)
	if !lines.Scan() {
		b.Fatal(lines.Err())
	}
	began := time.Now()
	env.cache.Progressed(event + 1)
	if !lines.Scan() {
		b.Fatal(lines.Err())
	}
	return float64(time.Since(began)) / float64(time.Millisecond)
}

// quantile is the value below which a part of all values lie.
func quantile(values []float64, part float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}
