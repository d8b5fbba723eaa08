package read_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/millrace/millrace/internal/slo"
)

// The clients run in a process of their own: cpu-ns is what delivery costs, from the
// cache to the system call.

const clientEnv = "READ_BENCH_CLIENT"

// watchShape is how many connections a benchmark's watches have, and how many there are on
// each.
type watchShape struct{ conns, streams int }

func (s watchShape) watches() int { return s.conns * s.streams }

func TestMain(m *testing.M) {
	if task := os.Getenv(clientEnv); task != "" {
		var s watchShape
		var url string
		if _, err := fmt.Sscan(task, &s.conns, &s.streams, &url); err != nil {
			panic(err)
		}
		s.followAll(url)
		return
	}
	os.Exit(m.Run())
}

// followAll opens all watches, those of each connection as another user, and says when
// each has had one more event.
func (s watchShape) followAll(url string) {
	var arrived atomic.Int64
	for i := range s.conns {
		c := &http.Client{Transport: &http2.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableCompression: true}}
		req, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			panic(err)
		}
		req.Header.Set("Test-User", fmt.Sprint("user-", i))
		for range s.streams {
			go func() {
				resp, err := c.Do(req)
				if err != nil {
					panic(err)
				}
				for lines := bufio.NewReader(resp.Body); ; {
					if _, err := lines.ReadSlice('\n'); err != nil {
						return
					}
					if arrived.Add(1)%int64(s.watches()) == 0 {
						fmt.Println()
					}
				}
			}()
		}
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// deliverer is a server with clients that watch.
type deliverer struct {
	*accountedServer
	rounds *bufio.Reader
	events int
	// costs are of the turns, in nanoseconds of processor time for an event.
	costs []float64
}

func (s watchShape) newDeliverer(b *testing.B, accounts *slo.Watches) *deliverer {
	env := &deliverer{accountedServer: newAccountedBy(b, "HTTP/2", accounts)}
	env.load(b, "a/one")
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %s/api/v1/configmaps?watch=true&resourceVersion=100", clientEnv, s.conns, s.streams, env.server.URL))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	env.rounds = bufio.NewReader(out)
	waitUntil(b, "watches", func() bool { _, n := env.hub.Watches(); return n == s.watches() })
	return env
}

// changesPerTurn is how many changes a server delivers before the other one does.
const changesPerTurn = 3

// deliver delivers some changes to all.
func (env *deliverer) deliver(b *testing.B, s watchShape) {
	before := cpu()
	for range changesPerTurn {
		env.events++
		env.change(b, "a/one", strings.Repeat("0123456789", 220), int64(cacheRevision+env.events))
		if _, err := env.rounds.ReadString('\n'); err != nil {
			b.Fatal(err)
		}
	}
	env.costs = append(env.costs, float64(cpu()-before)/float64(changesPerTurn*s.watches()))
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

// BenchmarkWatch delivers events of 2.4 KB to many watches. A server that measures and
// one that does not take turns, and medians of their turns are compared, so that what
// else the machine does tells as little as can be.
func BenchmarkWatch(b *testing.B) {
	for _, s := range []watchShape{{1, 100}, {20, 50}, {1000, 1}} {
		b.Run(fmt.Sprint("connections=", s.conns), func(b *testing.B) {
			plain, measured := s.newDeliverer(b, nil), s.newDeliverer(b, slo.NewWatches(slo.Config{}))
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
