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

	"github.com/millrace/millrace/internal/h1"
	"github.com/millrace/millrace/internal/pull"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// feed is a Source that is fed by any goroutine.
type feed struct {
	puller  pull.Puller
	mu      sync.Mutex
	pending [][]byte
	err     error
	// panics is what Next panics with, writtenPanics what Written does.
	panics, writtenPanics any
	// running in progress, and whether there ever were two.
	running int
	misused bool
	// taken of the bytes given are in writes, sent in such that have returned.
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
	f.puller.Wake() // with the lock held, which Next takes
}

// Next gives one part at a time.
func (f *feed) Next(segments [][]byte, room int) ([][]byte, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running++
	f.misused = f.misused || f.running > 1 || room <= 0
	defer func() { f.running-- }()
	if f.panics != nil {
		panic(f.panics)
	}
	if len(f.pending) == 0 {
		return segments, false, f.err
	}
	segments, f.pending = append(segments, f.pending[0]), f.pending[1:]
	return segments, true, nil
}

func (f *feed) Sent(w *pull.Write, bytes int, _ *pull.WindowStall) {
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
	f.misused = f.misused || w.Filled.After(w.Began) || w.Began.After(w.Ended) || w.Busy.After(w.Filled)
	if f.writtenPanics != nil {
		panic(f.writtenPanics)
	}
}

// testServer answers with feeds, which it hands over, and with a last word.
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
		p.Wake() // too early: does nothing
		s.feeds <- f
		err := p.Pull(r.Context(), f)
		if f.misused {
			err = errors.New("called twice at once, without room, or out of order")
		}
		p.Wake() // too late
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

// dial opens a connection that speaks for itself.
func (s *testServer) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", s.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
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
	case <-time.After(patience):
		t.Fatal("Pull does not return")
		return nil
	}
}

// TestPull sends parts of all sizes, and uses the connection again.
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
			t.Errorf("told of %d and %d bytes, want %d", f.taken, f.sent, want)
		}
	}
}

// TestEventIsSentAtOnce reads each part before the next is given.
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
	f.puller.Locked(func(returned uint64) {
		if returned == 0 || returned > 100 {
			t.Errorf("%d writes", returned)
		}
	})
	f.add(io.EOF)
	if err := s.waitPull(t); err != nil {
		t.Error(err)
	}
}

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
		t.Error("the end of the client is no error")
	}
	f.add(nil, []byte("too late"))
}

// TestStalledClient stops reading, and reads on.
func TestStalledClient(t *testing.T) {
	s := serve(t)
	resp, f := s.begin(t.Context(), t)
	part := bytes.Repeat([]byte("x"), 1<<20)
	for range 64 {
		f.add(nil, part)
	}
	began := time.Now()
	for _, write := f.puller.Waits(); write.IsZero(); _, write = f.puller.Waits() {
		if time.Since(began) > patience {
			t.Fatal("nothing waits")
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

// TestSourceFailures with an error, and with a panic: the client sees that the body is
// not whole.
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
	f.writtenPanics = "trouble when told"
	f.mu.Unlock()
	f.add(nil, []byte("event"))
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the body of a source that panicked when told looks whole")
	}
	s.waitLogged(t, "trouble when told")
}

// waitLogged waits until something is logged.
func (s *testServer) waitLogged(t *testing.T, text string) {
	t.Helper()
	for began := time.Now(); !strings.Contains(s.log.String(), text); {
		if time.Since(began) > patience {
			t.Fatalf("nothing is logged but %q", s.log.String())
		}
		runtime.Gosched()
	}
}

// TestSlowCloseBlocksNoWorker has more sources fail than there are workers, over connections
// that do not close at once: TLS may wait for a client to hear of it.
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
		f.puller.Wake() // once more, for a worker that would wait for the lock
	}
	last := all[n]
	last.add(io.EOF, []byte("event"))
	for began := time.Now(); last.total() == 0; runtime.Gosched() {
		if time.Since(began) > patience {
			t.Fatal("no worker sends the event")
		}
	}
}

func (f *feed) total() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent
}

// slowCloser accepts connections that close when closed is.
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

// TestOtherServers have no Puller.
func TestOtherServers(t *testing.T) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	if _, ok := h1.New(w, r); ok {
		t.Error("a request from nowhere has a connection")
	}
}
