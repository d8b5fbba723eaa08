package pull_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/conn/pull"
)

// testTimeout bounds how long a test waits for something that must happen.
const testTimeout = 20 * time.Second

// task writes some bytes once. done receives the result.
type task struct {
	conn  net.Conn
	bytes []byte
	done  chan error
}

func (t *task) Write(w *pull.Worker) {
	n, err := w.Write(t.conn, t.bytes)
	if err == nil && n != len(t.bytes) {
		err = io.ErrShortWrite
	}
	t.done <- err
}

func (t *task) Abort(p *pull.Panic) { t.done <- p }

// do queues a write of bytes to conn.
func do(conn net.Conn, bytes []byte) *task {
	t := &task{conn, bytes, make(chan error, 1)}
	pull.Do(t)
	return t
}

func (t *task) wait(tb testing.TB) error {
	tb.Helper()
	select {
	case err := <-t.done:
		return err
	case <-time.After(testTimeout):
		tb.Fatal("no worker has written in time")
		return nil
	}
}

// tcp returns both ends of a TCP connection.
func tcp(t testing.TB) (server, client *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		s.Close()
	})
	return s.(*net.TCPConn), c.(*net.TCPConn)
}

// wrappedConn returns a TCP connection whose server end is a pull.Conn.
func wrappedConn(t testing.TB) (server, client net.Conn) {
	s, c := tcp(t)
	return pull.NewConn(s, 0), c
}

// pipeConn returns a connection that does not tell workers when a write blocks.
func pipeConn(testing.TB) (server, client net.Conn) { return net.Pipe() }

// TestStalledClientsBlockNoOther has more clients that do not read than there are
// workers. Other clients must still be served.
func TestStalledClientsBlockNoOther(t *testing.T) {
	for name, pair := range map[string]func(testing.TB) (server, client net.Conn){"TCP": wrappedConn, "any": pipeConn} {
		t.Run(name, func(t *testing.T) {
			large := make([]byte, 8<<20)
			rand.NewChaCha8([32]byte{}).Read(large)
			var tasks []*task
			var clients []net.Conn
			for range 10 * runtime.GOMAXPROCS(0) {
				s, c := pair(t)
				tasks, clients = append(tasks, do(s, large)), append(clients, c)
			}
			for range 3 {
				s, c := pair(t)
				x := do(s, []byte("hello"))
				got := make([]byte, 5)
				if err := c.SetReadDeadline(time.Now().Add(testTimeout)); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello" {
					t.Fatalf("got %q: %v", got, err)
				}
				if err := x.wait(t); err != nil {
					t.Error(err)
				}
			}
			defer func() {
				// Workers that were blocked are not needed any more, and must end.
				for began := time.Now(); countWorkers() > 2*runtime.GOMAXPROCS(0); runtime.Gosched() {
					if time.Since(began) > testTimeout {
						t.Fatalf("%d workers are left", countWorkers())
					}
				}
			}()
			for i, c := range clients {
				got := make([]byte, len(large))
				if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, large) {
					t.Fatalf("client %d got something else: %v", i, err)
				}
				if err := tasks[i].wait(t); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// countWorkers counts the workers' goroutines.
func countWorkers() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "pull.(*workerPool).run(")
}

// busyTask occupies a worker without writing, until a channel is closed. most is the
// highest number of such tasks at one time.
type busyTask struct {
	now, most *atomic.Int32
	until     chan struct{}
	done      *sync.WaitGroup
}

func (b *busyTask) Abort(*pull.Panic) {}

func (b *busyTask) Write(*pull.Worker) {
	defer b.done.Done()
	now := b.now.Add(1)
	for most := b.most.Load(); now > most && !b.most.CompareAndSwap(most, now); most = b.most.Load() {
	}
	<-b.until
	b.now.Add(-1)
}

// TestWorkersAreLimited checks that as many tasks run at once as there are processors,
// and no more.
func TestWorkersAreLimited(t *testing.T) {
	var now, most atomic.Int32
	var done sync.WaitGroup
	limit := runtime.GOMAXPROCS(0)
	until := make(chan struct{})
	for range 10 * limit {
		done.Add(1)
		pull.Do(&busyTask{&now, &most, until, &done})
	}
	for now.Load() < int32(limit) {
		runtime.Gosched()
	}
	close(until)
	done.Wait()
	if got := most.Load(); got > int32(limit) {
		t.Errorf("%d tasks at once, %d processors", got, limit)
	}
}

// layer sits above a connection as TLS does: it writes its input in pieces.
type layer struct {
	net.Conn
	pieces []int
}

func (l *layer) NetConn() net.Conn { return l.Conn }

func (l *layer) Write(b []byte) (n int, err error) {
	for i := 0; n < len(b) && err == nil; i++ {
		var written int
		written, err = l.Conn.Write(b[n:min(n+l.pieces[i%len(l.pieces)], len(b))])
		n += written
	}
	return n, err
}

// TestPieces writes pieces that are gathered, pieces that are larger than the buffer, and
// both.
func TestPieces(t *testing.T) {
	large := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{}).Read(large)
	for _, pieces := range [][]int{{16 << 10}, {1, 1000, 50}, {200 << 10}, {10, 300 << 10, 16 << 10}} {
		s, c := wrappedConn(t)
		for _, worker := range []bool{true, false} {
			x := &task{&layer{s, pieces}, large, make(chan error, 1)}
			if worker {
				pull.Do(x)
			} else {
				go x.Write(nil)
			}
			got := make([]byte, len(large))
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, large) {
				t.Fatalf("pieces of %v: got something else: %v", pieces, err)
			}
			if err := x.wait(t); err != nil {
				t.Errorf("pieces of %v: %v", pieces, err)
			}
		}
	}
}

// TestPiecesWait writes while gathered pieces wait for the client, as TLS does in Close.
// That write must return at once, and its bytes must follow the pieces.
func TestPiecesWait(t *testing.T) {
	s, c := wrappedConn(t)
	var sent []byte
	for n, err := 0, error(nil); err == nil; sent = append(sent, make([]byte, n)...) {
		if err = s.SetWriteDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n, err = s.Write(make([]byte, 1<<20))
	}
	if err := s.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	pieces := bytes.Repeat([]byte("a piece "), 5000)
	above := &notifyingLayer{layer{s, []int{16 << 10}}, make(chan struct{})}
	x := do(above, pieces)
	<-above.written
	written := do(s, []byte("behind"))
	if err := written.wait(t); err != nil {
		t.Fatal(err)
	}
	want := append(append(sent, pieces...), "behind"...)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got something else: %v", err)
	}
	if err := x.wait(t); err != nil {
		t.Error(err)
	}
}

// notifyingLayer closes written when all pieces have been written to the connection
// below.
type notifyingLayer struct {
	layer
	written chan struct{}
}

func (l *notifyingLayer) Write(b []byte) (int, error) {
	defer close(l.written)
	return l.layer.Write(b)
}

func TestPiecesReturnErrors(t *testing.T) {
	s, _ := wrappedConn(t)
	s.Close()
	for _, pieces := range [][]int{{16 << 10}, {16 << 10, 300 << 10}} {
		if err := do(&layer{s, pieces}, make([]byte, 40<<10)).wait(t); !errors.Is(err, net.ErrClosed) {
			t.Errorf("pieces of %v: got %v, want net.ErrClosed", pieces, err)
		}
	}
}

func TestConnReturnsErrors(t *testing.T) {
	s, c := wrappedConn(t)
	if err := s.SetWriteDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	x := do(s, make([]byte, 64<<20))
	if err := x.wait(t); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want os.ErrDeadlineExceeded", err)
	}
	if err := s.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	x = do(s, make([]byte, 64<<20))
	if err := c.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := x.wait(t); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("got %v, want a connection reset", err)
	}
	s.Close()
	if err := do(s, []byte("x")).wait(t); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want net.ErrClosed", err)
	}
}

// TestNilWorkerWrites writes from a goroutine that is no worker.
func TestNilWorkerWrites(t *testing.T) {
	s, c := wrappedConn(t)
	var w *pull.Worker
	if n, err := w.Write(s, []byte("hello")); n != 5 || err != nil {
		t.Errorf("wrote %d bytes: %v", n, err)
	}
	s.Close()
	if got, err := io.ReadAll(c); string(got) != "hello" || err != nil {
		t.Errorf("got %q: %v", got, err)
	}
}
