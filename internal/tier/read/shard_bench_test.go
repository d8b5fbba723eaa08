package read_test

import (
	"bufio"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/account/slo"
	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/test/support/benchclient"
)

// shardTask begins the task of clients that share the events of a resource.
const shardTask = "shards "

// followShards watches URLs. Its task is the number of connections, that of the events
// that arrive at once, and the URLs.
func followShards(task string) {
	fields := strings.Fields(task)
	var conns, lines int
	if _, err := fmt.Sscan(fields[0]+" "+fields[1], &conns, &lines); err != nil {
		panic(err)
	}
	benchclient.FollowEach(fields[2:], conns, lines)
}

// shardClients is how clients share the events: so many watches over so many connections.
type shardClients struct {
	watches, conns int
}

func (s shardClients) String() string {
	if s.watches == s.conns {
		return fmt.Sprint(s.watches)
	}
	return fmt.Sprint(s.watches, "-over-", s.conns)
}

// allShardClients has the one client that watches everything first.
var allShardClients = []shardClients{{1, 1}, {16, 16}, {64, 64}, {64, 1}}

// sharer is a server with a process of clients that share the events among them.
type sharer struct {
	*accountedServer
	rounds *bufio.Reader
	burst  int
	events int
	costs  []float64
}

// newSharer starts a server and watches, each of a share of the objects. One alone watches
// everything. burst is the number of events that arrive at once.
func newSharer(b *testing.B, clients shardClients, burst int) *sharer {
	env := &sharer{accountedServer: newAccountedBy(b, "HTTP/2", slo.NewWatches(slo.Config{})), burst: burst}
	env.load(b, "one/a")
	target := fmt.Sprintf("%s%s?watch=true&resourceVersion=%d", env.server.URL, listPath, cacheRevision)
	var urls []string
	for i := range clients.watches {
		url := target
		if clients.watches > 1 {
			url += "&" + shardParameter(i, clients.watches)
		}
		urls = append(urls, url)
	}
	_, env.rounds = benchclient.Start(b, fmt.Sprint(shardTask, clients.conns, " ", burst, " ", strings.Join(urls, " ")))
	waitUntil(b, "watches", func() bool { _, n := env.hub.Watches(); return n == clients.watches })
	return env
}

// eventsPerTurn is the number of events that one server delivers before it is another
// server's turn.
const eventsPerTurn = 256

// deliver runs one turn, and records the CPU time of an event.
func (env *sharer) deliver(b *testing.B) {
	before := benchclient.CPU()
	for range eventsPerTurn / env.burst {
		events := make([]feed.Object, env.burst)
		for i := range events {
			env.events++
			obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "one", Name: fmt.Sprint(env.events % 1000)}, Data: map[string]string{"text": strings.Repeat("0123456789", 220)}}
			stored, err := obj.Marshal()
			if err != nil {
				b.Fatal(err)
			}
			events[i] = feed.Object{
				Key: []byte("/registry/configmaps/one/" + obj.Name), Value: stored, Revision: int64(cacheRevision + env.events),
			}
		}
		env.cache.Apply(b.Context(), events)
		if _, err := env.rounds.ReadString('\n'); err != nil {
			b.Fatal(err)
		}
	}
	env.costs = append(env.costs, float64(benchclient.CPU()-before)/eventsPerTurn)
}

// BenchmarkShards delivers events of 2.4 KB to one client that watches everything, and to
// 16 and 64 clients of a shard each. These have connections of their own, or share one.
// The servers take turns, so that other load on the machine affects all alike. Events come
// one at a time, or many at once. Then the one client gets them in one write, and the
// others in a write each.
func BenchmarkShards(b *testing.B) {
	serveShards(b)
	for _, burst := range []int{1, 4, 64} {
		b.Run(fmt.Sprint("burst=", burst), func(b *testing.B) {
			var servers []*sharer
			for _, clients := range allShardClients {
				env := newSharer(b, clients, burst)
				env.deliver(b)
				env.costs = nil
				servers = append(servers, env)
			}
			b.ResetTimer()
			for i := range b.N {
				for j := range servers {
					servers[(i+j)%len(servers)].deliver(b)
				}
			}
			for i, clients := range allShardClients {
				var ratios []float64
				for turn, cost := range servers[i].costs {
					ratios = append(ratios, cost/servers[0].costs[turn])
				}
				b.ReportMetric(median(servers[i].costs), "cpu-ns/event/"+clients.String())
				b.ReportMetric(median(ratios), "ratio/"+clients.String())
			}
		})
	}
}
