package read_test

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/account/slo"
	"github.com/millrace/millrace/test/support/benchclient"
)

// watchShape is the number of a benchmark's connections and the number of watches on
// each connection.
type watchShape struct{ conns, streams int }

func (s watchShape) watches() int { return s.conns * s.streams }

func TestMain(m *testing.M) {
	if task, ok := strings.CutPrefix(benchclient.Task(), shardTask); ok {
		followShards(task)
		return
	}
	if task := benchclient.Task(); task != "" {
		var s watchShape
		var url string
		if _, err := fmt.Sscan(task, &s.conns, &s.streams, &url); err != nil {
			panic(err)
		}
		benchclient.Follow(s.conns, s.streams, url) // each connection has its own user
		return
	}
	os.Exit(m.Run())
}

// deliverer is a server with a process of watching clients.
type deliverer struct {
	*accountedServer
	rounds *bufio.Reader
	events int
	// costs holds one value per turn: nanoseconds of CPU time per delivered event.
	costs []float64
}

// newDeliverer starts a server and its clients, which watch with the given parameters
// besides.
func (s watchShape) newDeliverer(b *testing.B, accounts *slo.Watches, parameters string) *deliverer {
	env := &deliverer{accountedServer: newAccountedBy(b, "HTTP/2", accounts)}
	env.load(b, "a/one")
	task := fmt.Sprintf("%d %d %s/api/v1/configmaps?watch=true&resourceVersion=100%s", s.conns, s.streams, env.server.URL, parameters)
	_, env.rounds = benchclient.Start(b, task)
	waitUntil(b, "watches", func() bool { _, n := env.hub.Watches(); return n == s.watches() })
	return env
}

// changesPerTurn is the number of changes that one server delivers before it is the other
// server's turn.
const changesPerTurn = 3

// deliver runs one turn: it delivers changesPerTurn changes to all watches and records
// the cost.
func (env *deliverer) deliver(b *testing.B, s watchShape) {
	before := benchclient.CPU()
	for range changesPerTurn {
		env.events++
		env.change(b, "a/one", strings.Repeat("0123456789", 220), int64(cacheRevision+env.events))
		if _, err := env.rounds.ReadString('\n'); err != nil {
			b.Fatal(err)
		}
	}
	env.costs = append(env.costs, float64(benchclient.CPU()-before)/float64(changesPerTurn*s.watches()))
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// BenchmarkWatch delivers events of 2.4 KB to many watches. A server with accounts and a
// server without take turns. The benchmark compares the medians of their turns, so that
// other load on the machine affects both alike.
func BenchmarkWatch(b *testing.B) {
	for _, s := range []watchShape{{1, 100}, {20, 50}, {1000, 1}} {
		b.Run(fmt.Sprint("connections=", s.conns), func(b *testing.B) {
			plain, measured := s.newDeliverer(b, nil, ""), s.newDeliverer(b, slo.NewWatches(slo.Config{}), "")
			for _, env := range []*deliverer{plain, measured} {
				env.deliver(b, s)
				env.costs = nil
			}
			b.ResetTimer()
			for i := range b.N {
				first, second := plain, measured
				if i%2 == 1 {
					first, second = measured, plain
				}
				first.deliver(b, s)
				second.deliver(b, s)
			}
			var more []float64
			for i, cost := range measured.costs {
				more = append(more, cost-plain.costs[i])
			}
			b.ReportMetric(median(plain.costs), "plain-cpu-ns/event")
			b.ReportMetric(median(measured.costs), "measured-cpu-ns/event")
			b.ReportMetric(100*median(more)/median(plain.costs), "%")
		})
	}
}
