package h2_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"github.com/millrace/millrace/internal/conn/h2"
	"github.com/millrace/millrace/internal/conn/pull"
)

// feed is a Source that any goroutine may add bytes to.
type feed struct {
	wake    func()
	mu      sync.Mutex
	pending [][]byte
	// step is the number of chunks that one call of Next returns; 0 means all.
	step int
	err  error
	// running counts calls of Next in progress. misused is set by calls that the
	// interface does not allow.
	running int
	misused bool
	pulled  bool
}

func (f *feed) add(err error, parts ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, part := range parts {
		f.pending = append(f.pending, []byte(part))
	}
	if err != nil {
		f.err = err
	}
	f.wake() // Next takes the lock that is held here
}

func (f *feed) Next(chunks [][]byte, room int) ([][]byte, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running++
	f.misused = f.misused || f.running > 1 || room <= 0
	defer func() { f.running-- }()
	n := len(f.pending)
	if f.step > 0 {
		n = min(n, f.step)
	}
	chunks = append(chunks, f.pending[:n]...)
	f.pending = f.pending[n:]
	if len(f.pending) > 0 {
		return chunks, true, nil
	}
	return chunks, false, f.err
}

// feedHandler answers with feeds. It hands the feeds and the results of Pull to the test.
type feedHandler struct {
	feeds chan *feed
	errs  chan error
	step  int
}

func newFeedHandler() *feedHandler {
	return &feedHandler{feeds: make(chan *feed, 1000), errs: make(chan error, 1000)}
}

func (p *feedHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	puller := w.(pull.Puller)
	f := &feed{wake: puller.Wake, step: p.step}
	f.wake() // before Pull it has no effect
	p.feeds <- f
	err := puller.Pull(r.Context(), f)
	f.mu.Lock()
	if f.misused {
		err = errors.New("Next was called concurrently, or without room")
	}
	f.pulled = true
	f.mu.Unlock()
	f.wake() // after Pull it has no effect
	p.errs <- err
}

// begin sends a request and returns the response without reading its body.
func begin(ctx context.Context, t *testing.T, c *http.Client, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func get(t *testing.T, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	resp := begin(testContext(t), t, c, url)
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(content)
}

func TestPullSendsAll(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 20_000)
	for name, step := range map[string]int{"at once": 0, "one at a time": 1} {
		t.Run(name, func(t *testing.T) {
			p := newFeedHandler()
			p.step = step
			s := serve(t, p, ours(h2.Config{}))
			resp := begin(testContext(t), t, s.client(t), s.url("/"))
			(<-p.feeds).add(io.EOF, "a", "", "b", large, "c")
			content, err := io.ReadAll(resp.Body)
			if want := "ab" + large + "c"; err != nil || string(content) != want {
				t.Errorf("got %d bytes (%v), want %d", len(content), err, len(want))
			}
			if err := <-p.errs; err != nil {
				t.Errorf("Pull: %v", err)
			}
		})
	}
}

// TestPullEnds ends bodies in every way.
func TestPullEnds(t *testing.T) {
	p := newFeedHandler()
	s := serve(t, p, ours(h2.Config{}))
	c := s.client(t)
	broken := errors.New("broken")

	resp := begin(testContext(t), t, c, s.url("/"))
	(<-p.feeds).add(io.EOF)
	if content, err := io.ReadAll(resp.Body); err != nil || len(content) > 0 {
		t.Errorf("an empty body: got %q, %v", content, err)
	}
	if err := <-p.errs; err != nil {
		t.Errorf("an empty body: Pull: %v", err)
	}

	resp = begin(testContext(t), t, c, s.url("/"))
	(<-p.feeds).add(broken)
	var reset http2.StreamError
	if _, err := io.ReadAll(resp.Body); !errors.As(err, &reset) || reset.Code != http2.ErrCodeInternal {
		t.Errorf("source's error: the client got %v", err)
	}
	if err := <-p.errs; !errors.Is(err, broken) {
		t.Errorf("source's error: %v", err)
	}

	ctx, cancel := context.WithCancel(testContext(t))
	begin(ctx, t, c, s.url("/"))
	f := <-p.feeds
	cancel()
	if err := <-p.errs; err == nil {
		t.Error("canceled by the client: no error")
	}
	f.add(nil, "the client has left")

	resp = begin(testContext(t), t, c, s.url("/"))
	<-p.feeds
	s.Close()
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("server closed: the client sees no error")
	}
	if err := <-p.errs; err == nil {
		t.Error("server closed: Pull has no error")
	}
}

func TestPullContext(t *testing.T) {
	began, errs := make(chan context.CancelFunc, 1), make(chan error, 1)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		f := &feed{wake: w.(pull.Puller).Wake, pending: [][]byte{[]byte("pulled, ")}}
		began <- cancel
		errs <- w.(pull.Puller).Pull(ctx, f)
		_, _ = io.WriteString(w, "written")
	}), ours(h2.Config{}))
	resp := begin(testContext(t), t, s.client(t), s.url("/"))
	if _, err := io.ReadFull(resp.Body, make([]byte, len("pulled, "))); err != nil {
		t.Fatal(err)
	}
	(<-began)()
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if rest, err := io.ReadAll(resp.Body); string(rest) != "written" || err != nil {
		t.Errorf("after the pulled bytes: got %q, %v", rest, err)
	}
}

type panickingSource struct{}

func (panickingSource) Next([][]byte, int) ([][]byte, bool, error) { panic("oh") }

func TestPullPanics(t *testing.T) {
	errs := make(chan error, 1)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			errs <- w.(pull.Puller).Pull(r.Context(), panickingSource{})
		}
	}), ours(h2.Config{}))
	c := s.client(t)
	if _, err := io.ReadAll(begin(testContext(t), t, c, s.url("/")).Body); err == nil {
		t.Error("the client sees no error")
	}
	if err := <-errs; err == nil || !strings.Contains(s.log.String(), "panic") {
		t.Error("the panic gave no error, or was not logged:", err)
	}
	if resp, _ := get(t, c, s.url("/other")); resp.StatusCode != 200 {
		t.Error("the connection did not survive")
	}
}

func TestPullHead(t *testing.T) {
	errs := make(chan error, 1)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		errs <- w.(pull.Puller).Pull(r.Context(), panickingSource{})
	}), ours(h2.Config{}))
	resp, err := s.client(t).Head(s.url("/"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if err := <-errs; err != nil {
		t.Error(err)
	}
}

// TestPullMany has many goroutines add to many streams on few connections. Some clients
// have small windows, others leave early. Each client must receive everything in order.
func TestPullMany(t *testing.T) {
	const conns, streams, feeders, rounds = 4, 50, 4, 100
	p := newFeedHandler()
	s := serve(t, p, ours(h2.Config{}))
	var readers sync.WaitGroup
	for i := range conns {
		c := s.client(t)
		if i == 0 {
			c.Transport = &http2.Transport{
				TLSClientConfig:  &tls.Config{InsecureSkipVerify: true},
				MaxReadFrameSize: 16 << 10,
			}
			t.Cleanup(c.CloseIdleConnections)
		}
		for j := range streams {
			ctx, cancel := context.WithCancel(testContext(t))
			resp := begin(ctx, t, c, s.url("/"))
			readers.Go(func() {
				defer cancel()
				want := uint32(rounds)
				if j%10 == 9 {
					want = 10 // this client leaves early
				}
				if err := inOrder(resp.Body, want); err != nil {
					t.Errorf("connection %d, stream %d: %v", i, j, err)
				}
			})
		}
	}
	var feeding sync.WaitGroup
	for range feeders {
		feeding.Go(func() {
			for range conns * streams / feeders {
				f := <-p.feeds
				for k := range uint32(rounds) {
					f.add(nil, string(binary.BigEndian.AppendUint32(nil, k)), strings.Repeat("x", int(k)*7%3000))
				}
			}
		})
	}
	feeding.Wait()
	readers.Wait()
}

// inOrder reads the numbered records of TestPullMany.
func inOrder(r io.Reader, want uint32) error {
	for k := range want {
		var number [4]byte
		if _, err := io.ReadFull(r, number[:]); err != nil {
			return fmt.Errorf("record %d: %w", k, err)
		}
		if got := binary.BigEndian.Uint32(number[:]); got != k {
			return fmt.Errorf("record %d is %d", k, got)
		}
		if _, err := io.CopyN(io.Discard, r, int64(k)*7%3000); err != nil {
			return fmt.Errorf("record %d: %w", k, err)
		}
	}
	return nil
}

// TestPullBesideDownload has a client that reads a watch but not a download on the same
// connection, then the other way round.
func TestPullBesideDownload(t *testing.T) {
	p := newFeedHandler()
	mux := http.NewServeMux()
	mux.Handle("/watch", p)
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		for range 64 {
			if _, err := io.WriteString(w, size1M); err != nil {
				return
			}
		}
	})
	s := serve(t, mux, ours(h2.Config{}))
	c := s.client(t)
	large := begin(testContext(t), t, c, s.url("/large"))
	watch := begin(testContext(t), t, c, s.url("/watch"))
	f := <-p.feeds
	for range 1000 {
		f.add(nil, "event")
		if _, err := io.ReadFull(watch.Body, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
	}
	f.add(nil, size1M, size1M, size1M, size1M) // the client does not read these
	if n, err := io.Copy(io.Discard, large.Body); n != 64<<20 || err != nil {
		t.Error(n, err)
	}
}

// TestPullSlowReader has a client that opens its window by one byte at a time.
func TestPullSlowReader(t *testing.T) {
	p := newFeedHandler()
	s := serve(t, p, ours(h2.Config{}))
	c := dial(t, s.addr)
	c.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	c.headers(1, true, c.get("/"))
	(<-p.feeds).add(io.EOF, "abc", "def")
	var got string
	for len(got) < 6 {
		switch f := c.next().(type) {
		case nil:
			t.Fatalf("the connection ended after %q", got)
		case *http2.DataFrame:
			if len(f.Data()) != 1 {
				t.Fatalf("a DATA frame has %q, but the window allows one byte", f.Data())
			}
			got += string(f.Data())
			_ = c.WriteWindowUpdate(1, 1)
		case *http2.HeadersFrame:
			_ = c.WriteWindowUpdate(1, 1)
		}
	}
	if err := <-p.errs; got != "abcdef" || err != nil {
		t.Error(got, err)
	}
}
