package h1_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/conn/h1"
	"github.com/millrace/millrace/internal/conn/pull"
)

// testTimeout bounds how long a test waits for something that must happen.
const testTimeout = 20 * time.Second

// feed is a Source and Receiver that any goroutine may add bytes to.
type feed struct {
	puller  pull.Puller
	mu      sync.Mutex
	pending [][]byte
	err     error
	// Next panics with panics, and Written with writtenPanics, if they are set.
	panics, writtenPanics any
	// running counts calls of Next in progress. misused is set by calls that the
	// interfaces do not allow.
	running int
	misused bool
	// taken counts bytes in writes, and sent those in writes that have returned. number
	// is that of the last write.
	taken, sent int
	number      uint64
}

func (f *feed) add(err error, parts ...[]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = append(f.pending, parts...)
	if err != nil {
		f.err = err
	}
	f.puller.Wake() // Next takes the lock that is held here
}

// Next returns one part at a time.
func (f *feed) Next(chunks [][]byte, room int) ([][]byte, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running++
	f.misused = f.misused || f.running > 1 || room <= 0
	defer func() { f.running-- }()
	if f.panics != nil {
		panic(f.panics)
	}
	if len(f.pending) == 0 {
		return chunks, false, f.err
	}
	chunks, f.pending = append(chunks, f.pending[0]), f.pending[1:]
	return chunks, true, nil
}

func (f *feed) Placed(w *pull.Write, bytes int, _ *pull.WindowStall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken += bytes
	f.misused = f.misused || w.Number != f.number+1
	f.number = w.Number
}

func (f *feed) Written(w *pull.Write) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = f.taken
	f.misused = f.misused || w.FillBegan.After(w.Began) || w.Began.After(w.Ended) || w.BusySince.After(w.FillBegan)
	if f.writtenPanics != nil {
		panic(f.writtenPanics)
	}
}

// testServer answers each request with "first ", the bytes of a feed, and " last". It
// hands the feeds and the results of Pull to the test.
type testServer struct {
	*httptest.Server
	feeds chan *feed
	errs  chan error
	log   logBuffer
}

type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func serve(t *testing.T, edits ...func(*testServer)) *testServer {
	s := &testServer{feeds: make(chan *feed, 1000), errs: make(chan error, 1000)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, ok := h1.New(w, r)
		if !ok {
			http.Error(w, "no puller", http.StatusTeapot)
			return
		}
		_, _ = io.WriteString(w, "first ")
		f := &feed{puller: p}
		p.Wake() // before Pull it has no effect
		s.feeds <- f
		err := p.Pull(r.Context(), f)
		if f.misused {
			err = errors.New("a method was called concurrently, without room, or out of order")
		}
		p.Wake() // after Pull it has no effect
		s.errs <- err
		_, _ = io.WriteString(w, " last")
	}))
	s.Listener = pull.NewListener(s.Listener, 0)
	h1.Configure(s.Config)
	s.Config.ErrorLog = log.New(&s.log, "", 0)
	for _, edit := range edits {
		edit(s)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// dial opens a TLS connection for a test that speaks HTTP itself.
func (s *testServer) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", s.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	return c
}

func (s *testServer) begin(ctx context.Context, t *testing.T) (*http.Response, *feed) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp, <-s.feeds
}

func (s *testServer) waitPull(t *testing.T) error {
	t.Helper()
	select {
	case err := <-s.errs:
		return err
	case <-time.After(testTimeout):
		t.Fatal("Pull does not return")
		return nil
	}
}

// TestPull sends parts of many sizes, three times over one connection.
func TestPull(t *testing.T) {
	s := serve(t)
	random := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		resp, f := s.begin(t.Context(), t)
		var want bytes.Buffer
		want.WriteString("first ")
		for i := range 200 {
			part := bytes.Repeat([]byte{'a' + byte(i%26)}, random.IntN(1<<random.IntN(20)))
			want.Write(part)
			f.add(nil, part, nil)
		}
		f.add(io.EOF)
		got, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if want.WriteString(" last"); !bytes.Equal(got, want.Bytes()) {
			t.Errorf("got %d bytes, want %d", len(got), want.Len())
		}
		if err := s.waitPull(t); err != nil {
			t.Error(err)
		}
		if want := want.Len() - len("first  last"); f.taken != want || f.sent != want {
			t.Errorf("Placed reported %d bytes, Written %d, want %d", f.taken, f.sent, want)
		}
	}
}

// TestEventIsSentAtOnce reads each part before the next one is added.
func TestEventIsSentAtOnce(t *testing.T) {
	s := serve(t)
	resp, f := s.begin(t.Context(), t)
	want := "first "
	for i := range 100 {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
			t.Fatalf("got %q, want %q: %v", got, want, err)
		}
		want = fmt.Sprint("event ", i)
		f.add(nil, []byte(want))
	}
	f.puller.WithLock(func(returned uint64) {
		if returned == 0 || returned > 100 {
			t.Errorf("%d writes have returned, want 1 to 100", returned)
		}
	})
	f.add(io.EOF)
	if err := s.waitPull(t); err != nil {
		t.Error(err)
	}
}

// TestFraming checks the bytes of a response in HTTP/1.1 and HTTP/1.0.
func TestFraming(t *testing.T) {
	s := serve(t)
	for _, c := range []struct{ version, header, body string }{
		{"1.1", "Transfer-Encoding: chunked\r\n", "6\r\nfirst \r\n4\r\nbody\r\n5\r\n last\r\n0\r\n\r\n"},
		{"1.0", "HTTP/1.0 200 OK\r\n", "first body last"},
	} {
		conn := s.dial(t)
		fmt.Fprintf(conn, "GET / HTTP/%s\r\nHost: a\r\n\r\n", c.version)
		f := <-s.feeds
		f.add(nil, []byte("body"))
		f.add(io.EOF)
		if err := s.waitPull(t); err != nil {
			t.Error(err)
		}
		got, r := "", bufio.NewReader(conn)
		for !strings.HasSuffix(got, c.body) {
			b, err := r.ReadByte()
			if err != nil {
				t.Fatalf("%s: got %q: %v", c.version, got, err)
			}
			got += string(b)
		}
		if head, body, _ := strings.Cut(got, "\r\n\r\n"); body != c.body || !strings.Contains(head+"\r\n", c.header) {
			t.Errorf("%s: got %q", c.version, got)
		}
	}
}

func TestClientLeaves(t *testing.T) {
	s := serve(t)
	ctx, leave := context.WithCancel(t.Context())
	_, f := s.begin(ctx, t)
	leave()
	if err := s.waitPull(t); err == nil {
		t.Error("Pull returned no error for a client that left")
	}
	f.add(nil, []byte("too late"))
}

// TestStalledClient has a client that stops reading for a while. Another client must be
// served meanwhile.
func TestStalledClient(t *testing.T) {
	s := serve(t)
	resp, f := s.begin(t.Context(), t)
	part := bytes.Repeat([]byte("x"), 1<<20)
	for range 64 {
		f.add(nil, part)
	}
	began := time.Now()
	for _, write := f.puller.Waits(); write.IsZero(); _, write = f.puller.Waits() {
		if time.Since(began) > testTimeout {
			t.Fatal("no write blocks")
		}
		runtime.Gosched()
	}
	other, g := s.begin(t.Context(), t)
	g.add(io.EOF, []byte("other"))
	if got, err := io.ReadAll(other.Body); string(got) != "first other last" || err != nil {
		t.Errorf("got %q: %v", got, err)
	}
	f.add(io.EOF)
	got, err := io.ReadAll(resp.Body)
	if want := len("first  last") + 64<<20; len(got) != want || err != nil {
		t.Errorf("got %d bytes, want %d: %v", len(got), want, err)
	}
}

// TestSourceFailures has sources that return an error or panic. The client must see that
// the body is incomplete.
func TestSourceFailures(t *testing.T) {
	s := serve(t)
	resp, f := s.begin(t.Context(), t)
	failed := errors.New("failed")
	f.add(failed)
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the body of a source that failed looks whole")
	}
	if err := s.waitPull(t); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	resp, f = s.begin(t.Context(), t)
	f.mu.Lock()
	f.panics = "trouble in the source"
	f.mu.Unlock()
	f.add(nil)
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the body of a source that panicked looks whole")
	}
	s.waitLogged(t, "trouble in the source")
	resp, f = s.begin(t.Context(), t)
	f.mu.Lock()
	f.writtenPanics = "trouble in Written"
	f.mu.Unlock()
	f.add(nil, []byte("event"))
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the body of a source that panicked in Written looks whole")
	}
	s.waitLogged(t, "trouble in Written")
}

// waitLogged waits until text is in the server's log.
func (s *testServer) waitLogged(t *testing.T, text string) {
	t.Helper()
	for began := time.Now(); !strings.Contains(s.log.String(), text); {
		if time.Since(began) > testTimeout {
			t.Fatalf("%q is not in the log: %q", text, s.log.String())
		}
		runtime.Gosched()
	}
}

// TestSlowCloseBlocksNoWorker has more failing sources than there are workers. Their
// connections block in Close, as TLS connections may.
func TestSlowCloseBlocksNoWorker(t *testing.T) {
	closing := &slowCloser{closed: make(chan struct{})}
	s := serve(t, func(s *testServer) {
		closing.Listener = s.Listener
		s.Listener = closing
	})
	defer close(closing.closed)
	n := 2 * runtime.GOMAXPROCS(0)
	var all []*feed
	for range n + 1 {
		_, f := s.begin(t.Context(), t)
		all = append(all, f)
	}
	for _, f := range all[:n] {
		f.add(errors.New("failed"))
		f.puller.Wake() // a second worker would wait for the lock, if Close held it
	}
	last := all[n]
	last.add(io.EOF, []byte("event"))
	for began := time.Now(); last.total() == 0; runtime.Gosched() {
		if time.Since(began) > testTimeout {
			t.Fatal("no worker sends the event")
		}
	}
}

func (f *feed) total() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent
}

// slowCloser accepts connections whose Close waits until closed is closed.
type slowCloser struct {
	net.Listener
	closed chan struct{}
}

func (l *slowCloser) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &slowConn{c, l.closed}, err
}

type slowConn struct {
	net.Conn
	closed chan struct{}
}

func (c *slowConn) Close() error {
	<-c.closed
	return c.Conn.Close()
}

// TestOtherServers checks that New refuses requests of servers that were not configured.
func TestOtherServers(t *testing.T) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	if _, ok := h1.New(w, r); ok {
		t.Error("a request without a connection has a Puller")
	}
}
