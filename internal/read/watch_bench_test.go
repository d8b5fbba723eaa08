package read_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
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

const (
	clientEnv    = "READ_BENCH_CLIENT"
	benchConns   = 20
	benchStreams = 50 // on each connection
)

func TestMain(m *testing.M) {
	if url := os.Getenv(clientEnv); url != "" {
		followAll(url)
		return
	}
	os.Exit(m.Run())
}

// followAll opens all watches and says when each has had one more event.
func followAll(url string) {
	var arrived atomic.Int64
	for range benchConns {
		c := &http.Client{Transport: &http2.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableCompression: true}}
		for range benchStreams {
			go func() {
				resp, err := c.Get(url)
				if err != nil {
					panic(err)
				}
				for lines := bufio.NewReader(resp.Body); ; {
					if _, err := lines.ReadSlice('\n'); err != nil {
						return
					}
					if arrived.Add(1)%(benchConns*benchStreams) == 0 {
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

// BenchmarkWatch delivers an event of 2.4 KB to 1,000 watches over 20 connections,
// measured and not.
func BenchmarkWatch(b *testing.B) {
	for name, accounts := range map[string]*slo.Watches{"plain": nil, "measured": slo.NewWatches(slo.Config{})} {
		b.Run(name, func(b *testing.B) {
			x := newAccountedBy(b, "ours", accounts)
			x.load(b, "a/one")
			cmd := exec.Command(os.Args[0], "-test.run=^$")
			cmd.Env = append(os.Environ(), clientEnv+"="+x.server.URL+"/api/v1/configmaps?watch=true&resourceVersion=100")
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
			until(b, "watches", func() bool { _, n := x.hub.Watches(); return n == benchConns*benchStreams })
			rounds := bufio.NewReader(out)
			value := strings.Repeat("0123456789", 220)
			round := func(i int) {
				x.change(b, "a/one", value, int64(revision+i))
				if _, err := rounds.ReadString('\n'); err != nil {
					b.Fatal(err)
				}
			}
			round(1)
			b.ResetTimer()
			before := cpu()
			for i := range b.N {
				round(2 + i)
			}
			b.ReportMetric(float64(cpu()-before)/float64(b.N*benchConns*benchStreams), "cpu-ns/event")
		})
	}
}
