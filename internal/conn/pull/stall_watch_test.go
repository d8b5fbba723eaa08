package pull_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"regexp"
	"runtime"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/conn/pull"
)

// fillSocket writes to a connection whose client does not read until the socket is full.
// It returns the number of bytes that the socket took.
func fillSocket(t testing.TB, s net.Conn) (bytes int) {
	t.Helper()
	for err := error(nil); !errors.Is(err, os.ErrDeadlineExceeded); {
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SetWriteDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		var n int
		n, err = s.Write(make([]byte, 1<<20))
		bytes += n
	}
	if err := s.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	return bytes
}

// waitForStacks waits until n goroutines have stacks that match a pattern.
func waitForStacks(t testing.TB, n int, pattern string) {
	t.Helper()
	stack := regexp.MustCompile(pattern)
	for began := time.Now(); ; runtime.Gosched() {
		all := make([]byte, 4<<20)
		found := 0
		for _, one := range bytes.Split(all[:runtime.Stack(all, true)], []byte("\n\n")) {
			if stack.Match(one) {
				found++
			}
		}
		if found >= n {
			return
		}
		if time.Since(began) > testTimeout {
			t.Fatalf("%d goroutines match %q, want %d", found, pattern, n)
		}
	}
}

// TestBlockedReadersBlockNoWorker has goroutines that are no workers blocked in writes. A
// connection's reader is in that place when it answers a key update of TLS. Workers then
// wait for locks and not for the clients themselves; other connections must still be
// served.
func TestBlockedReadersBlockNoWorker(t *testing.T) {
	n := 2 * runtime.GOMAXPROCS(0)
	var stuck []net.Conn
	for range n {
		s, _ := wrappedConn(t)
		fillSocket(t, s)
		go func() { _, _ = s.Write(make([]byte, 64<<20)) }()
		stuck = append(stuck, s)
	}
	waitForStacks(t, n, `(?s)IO wait.*pull\.\(\*Conn\)\.Write\(.*pull_test\.TestBlockedReaders`)
	var tasks []*task
	for _, s := range stuck {
		tasks = append(tasks, do(s, []byte("x")))
	}
	s, c := wrappedConn(t)
	if err := do(s, []byte("hello")).wait(t); err != nil {
		t.Error(err)
	}
	waitForStacks(t, n, `(?s)Mutex\.Lock.*pull\.\(\*Worker\)\.Write\(`)
	if got := make([]byte, 5); true {
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello" {
			t.Errorf("got %q: %v", got, err)
		}
	}
	for i, x := range tasks {
		stuck[i].Close()
		if err := x.wait(t); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v, want net.ErrClosed", err)
		}
	}
}

// TestPendingBytesAreBounded keeps answering while a batch waits for the client, as TLS
// does when the client updates its keys and reads nothing.
func TestPendingBytesAreBounded(t *testing.T) {
	s, _ := wrappedConn(t)
	fillSocket(t, s)
	above := &notifyingLayer{layer{s, []int{16 << 10}}, make(chan struct{})}
	x := do(above, make([]byte, 40<<10))
	<-above.written
	answer, behind := make([]byte, 27), 0
	var err error
	for ; err == nil && behind < 1<<20; behind += len(answer) {
		_, err = s.Write(answer)
	}
	if err == nil {
		t.Fatalf("%d bytes are pending behind a batch", behind)
	}
	if err := x.wait(t); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want net.ErrClosed", err)
	}
}

// TestStalledClientsAreCutOff has clients that read nothing, with writes of each kind,
// and a client that reads slowly.
func TestStalledClientsAreCutOff(t *testing.T) {
	const stall = 200 * time.Millisecond
	for name, write := range map[string]func(net.Conn) error{
		"worker": func(s net.Conn) error { return do(s, make([]byte, 64<<20)).wait(t) },
		"batch":  func(s net.Conn) error { return do(&layer{s, []int{16 << 10}}, make([]byte, 64<<20)).wait(t) },
		"other": func(s net.Conn) error {
			_, err := s.Write(make([]byte, 64<<20))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			tcp, _ := tcp(t)
			if err := write(pull.NewConn(tcp, stall)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("got %v, want net.ErrClosed", err)
			}
		})
	}
	t.Run("slow", func(t *testing.T) {
		tcp, c := tcp(t)
		s := pull.NewConn(tcp, stall)
		sent := fillSocket(t, s)
		x := do(s, make([]byte, 1<<20))
		for began := time.Now(); time.Since(began) < 3*stall; sent -= 64 << 10 {
			if _, err := io.ReadFull(c, make([]byte, 64<<10)); err != nil {
				t.Fatal(err)
			}
			<-time.After(stall / 10)
		}
		if _, err := io.ReadFull(c, make([]byte, sent+1<<20)); err != nil {
			t.Error(err)
		}
		if err := x.wait(t); err != nil {
			t.Error(err)
		}
		<-time.After(2 * stall) // no bytes wait: the connection stays
		if err := do(s, []byte("x")).wait(t); err != nil {
			t.Error(err)
		}
	})
}

// panickingTask panics in Write.
type panickingTask struct{ aborted chan *pull.Panic }

func (p *panickingTask) Write(*pull.Worker)  { panic("oops") }
func (p *panickingTask) Abort(e *pull.Panic) { p.aborted <- e }

// TestPanicEndsOneTaskOnly runs more panicking tasks than there are workers.
func TestPanicEndsOneTaskOnly(t *testing.T) {
	p := &panickingTask{make(chan *pull.Panic, 1)}
	for range 3 * runtime.GOMAXPROCS(0) {
		pull.Do(p)
		select {
		case e := <-p.aborted:
			if e.Value != "oops" || !bytes.Contains(e.Trace, []byte("(*panickingTask).Write")) {
				t.Errorf("got %v", e)
			}
		case <-time.After(testTimeout):
			t.Fatal("Abort was not called")
		}
	}
	s, _ := wrappedConn(t)
	if err := do(s, []byte("x")).wait(t); err != nil {
		t.Error(err)
	}
}
