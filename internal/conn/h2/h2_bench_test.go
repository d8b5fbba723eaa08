package h2_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/internal/conn/h2"
	"github.com/millrace/millrace/internal/conn/pull"
	"github.com/millrace/millrace/test/support/benchclient"
)

const (
	benchConns     = 20
	streamsPerConn = 50 // on each connection
	eventSize      = 400
)

var servers = []struct {
	name      string
	configure func(*http.Server) error
}{{"go", goServer}, {"ours", ours(h2.Config{})}}

// benchClient runs in the clients' process. With "events" it follows all streams. With
// "fetch" it reads numbers from its input; for each it sends that many requests in a row
// and prints a line.
func benchClient(task string) {
	what, url, _ := strings.Cut(task, " ")
	if what == "events" {
		benchclient.Follow(benchConns, streamsPerConn, url)
		return
	}
	client := benchclient.New()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); fmt.Println() {
		count, _ := strconv.Atoi(lines.Text())
		for range count {
			resp, err := client.Get(url)
			if err != nil {
				panic(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
}

// benchStreams are the streams of BenchmarkEvents.
type benchStreams struct {
	event []byte
	mu    sync.Mutex
	wakes []func()
	// whole is closed when all streams are open.
	whole chan struct{}
}

func (c *benchStreams) add(wake func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wakes = append(c.wakes, wake); len(c.wakes) == benchConns*streamsPerConn {
		close(c.whole)
	}
}

// ServeHTTP sends an event for each wake: with Pull if the server has that, else from the
// handler's goroutine with a flush.
func (c *benchStreams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p, ok := w.(pull.Puller); ok {
		s := &tickSource{event: c.event, wake: p.Wake}
		w.(http.Flusher).Flush()
		c.add(s.add)
		_ = p.Pull(r.Context(), s)
		return
	}
	due := make(chan struct{}, 8)
	w.(http.Flusher).Flush()
	c.add(func() { due <- struct{}{} })
	for {
		select {
		case <-due:
			_, _ = w.Write(c.event)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// tickSource is a Source with one event for each call of add.
type tickSource struct {
	event []byte
	wake  func()
	due   atomic.Int64
}

func (s *tickSource) add() {
	s.due.Add(1)
	s.wake()
}

func (s *tickSource) Next(chunks [][]byte, _ int) ([][]byte, bool, error) {
	for n := s.due.Swap(0); n > 0; n-- {
		chunks = append(chunks, s.event)
	}
	return chunks, false, nil
}

// BenchmarkEvents sends one event on each of many streams at a time.
func BenchmarkEvents(b *testing.B) {
	for _, server := range servers {
		b.Run(server.name, func(b *testing.B) {
			c := &benchStreams{event: []byte(strings.Repeat("e", eventSize-1) + "\n"), whole: make(chan struct{})}
			s := serve(b, c, server.configure)
			_, out := benchclient.Start(b, "events "+s.url("/"))
			<-c.whole
			b.ResetTimer()
			before := benchclient.CPU()
			for range b.N {
				for _, wake := range c.wakes {
					wake()
				}
				if _, err := out.ReadString('\n'); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(benchclient.CPU()-before)/float64(b.N*len(c.wakes)), "cpu-ns/event")
		})
	}
}

// benchmarkFetch measures requests in a row.
func benchmarkFetch(b *testing.B, handler http.HandlerFunc) {
	for _, server := range servers {
		b.Run(server.name, func(b *testing.B) {
			s := serve(b, handler, server.configure)
			in, out := benchclient.Start(b, "fetch "+s.url("/"))
			fetch := func(count int) {
				fmt.Fprintln(in, count)
				if _, err := out.ReadString('\n'); err != nil {
					b.Fatal(err)
				}
			}
			fetch(1)
			b.ResetTimer()
			before := benchclient.CPU()
			fetch(b.N)
			b.ReportMetric(float64(benchclient.CPU()-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkDownload sends 1 MiB in chunks of 64 KiB.
func BenchmarkDownload(b *testing.B) {
	chunk := []byte(strings.Repeat("0123456789abcdef", 4<<10))
	benchmarkFetch(b, func(w http.ResponseWriter, _ *http.Request) {
		for range 16 {
			_, _ = w.Write(chunk)
		}
	})
}

// BenchmarkGet sends 1 KiB from a handler with a deep stack.
func BenchmarkGet(b *testing.B) {
	content := []byte(strings.Repeat("0123456789abcdef", 64))
	benchmarkFetch(b, func(w http.ResponseWriter, _ *http.Request) {
		callDeep(30, func() {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(content)
		})
	})
}

// callDeep calls f below many stack frames, as a chain of filters does.
//
//go:noinline
func callDeep(n int, f func()) {
	var frame [512]byte
	if n > 0 {
		callDeep(n-1, f)
	} else {
		f()
	}
	sink.Store(int32(frame[n]))
}

// sink keeps the compiler from removing the frames of callDeep.
var sink atomic.Int32
