package h2_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/millrace/millrace/internal/h2"
	"github.com/millrace/millrace/internal/pull"
)

// told is a feed that keeps what it is told.
type told struct {
	feed
	mu sync.Mutex
	// taken are in a write that has not returned.
	taken []part
	sent  []sent
	// number is of the write that something was taken for last.
	number uint64
	puller pull.Puller
}

// inFlight reports whether that has not returned.
func (f *told) inFlight() (is bool) {
	f.puller.Locked(func(returned uint64) {
		f.mu.Lock()
		defer f.mu.Unlock()
		is = f.number > returned
	})
	return is
}

// sent is what a write has carried that has returned.
type sent struct {
	pull.Write
	part
}

type part struct {
	bytes int
	shut  pull.WindowStall
}

func (f *told) Sent(w *pull.Write, bytes int, shut *pull.WindowStall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := part{bytes: bytes}
	if shut != nil {
		p.shut = *shut
	}
	f.taken, f.number = append(f.taken, p), w.Number
	all, _ := w.Local.([]*told)
	w.Local = append(all, f)
}

func (f *told) Written(w *pull.Write) {
	for _, f := range w.Local.([]*told) {
		f.mu.Lock()
		for _, p := range f.taken {
			f.sent = append(f.sent, sent{*w, p})
		}
		f.taken = nil
		f.mu.Unlock()
	}
}

// total is how many bytes were sent, and the last of what it was told.
func (f *told) total() (n int, last sent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sent {
		n += s.bytes
		last = s
	}
	return n, last
}

// telling answers with feeds that are told what was sent.
type telling chan *told

func (p telling) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := &told{puller: w.(pull.Puller)}
	f.wake = f.puller.Wake
	p <- f
	_ = f.puller.Pull(r.Context(), f)
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx := patient(t); !is(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not in time: %s", what)
		}
	}
}

// TestSentTellsOfTheWindow sends more than the client lets through.
func TestSentTellsOfTheWindow(t *testing.T) {
	handler := make(telling, 1)
	s := serve(t, handler, ours(h2.Config{}))
	p := dial(t, s.addr)
	p.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
	p.headers(1, true, p.get("/"))
	f := <-handler
	f.add(nil, "0123456789abcdef")
	until(t, "the window's worth", func() bool { n, _ := f.total(); return n == 10 })
	if _, last := f.total(); !last.shut.Since.IsZero() || last.Filled.After(last.Began) || last.Began.After(last.Ended) || last.Filled.IsZero() {
		t.Errorf("told %+v", last)
	}
	until(t, "the window to be known as shut", func() bool { window, _ := f.puller.Waits(); return !window.IsZero() })
	shut, write := f.puller.Waits()
	if !write.IsZero() {
		t.Error("nothing is being written")
	}
	until(t, "time to pass", func() bool { return time.Since(shut) > 20*time.Millisecond })
	if err := p.WriteWindowUpdate(1, 1000); err != nil {
		t.Fatal(err)
	}
	until(t, "the rest", func() bool { n, _ := f.total(); return n == 16 })
	if _, last := f.total(); !last.shut.Since.Equal(shut) || last.shut.For < 20*time.Millisecond || last.shut.For > last.Ended.Sub(shut) {
		t.Errorf("told %+v", last)
	}
	if window, _ := f.puller.Waits(); !window.IsZero() {
		t.Error("the window is open")
	}
	f.add(nil, "x")
	until(t, "one more", func() bool { n, _ := f.total(); return n == 17 })
	if _, last := f.total(); !last.shut.Since.IsZero() {
		t.Errorf("a client that has kept up since is held against it: %+v", last)
	}
}

// TestSentTellsOfTheConnection sends more than the connection takes.
func TestSentTellsOfTheConnection(t *testing.T) {
	handler := make(telling, 1)
	s := serve(t, handler, ours(h2.Config{}))
	p := dial(t, s.addr)
	const much = 1 << 30
	p.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: much})
	if err := p.WriteWindowUpdate(0, much); err != nil {
		t.Fatal(err)
	}
	p.headers(1, true, p.get("/"))
	f := <-handler
	part, given := strings.Repeat("x", 16<<10), 0
	until(t, "a write that waits", func() bool {
		for range 16 {
			f.add(nil, part)
			given += len(part)
		}
		window, write := f.puller.Waits()
		return window.IsZero() && !write.IsZero() && time.Since(write) > 200*time.Millisecond
	})
	_, write := f.puller.Waits()
	if n, _ := f.total(); n >= given {
		t.Errorf("%d bytes of %d were handed to a connection that nobody reads", n, given)
	}
	if !f.inFlight() {
		t.Error("the write that waits is counted as one that has returned")
	}
	go func() { // until the connection ends
		for {
			if _, err := p.ReadFrame(); err != nil {
				return
			}
		}
	}()
	until(t, "all to be sent", func() bool { n, _ := f.total(); return n == given })
	until(t, "the last write to be counted", func() bool { return !f.inFlight() })
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sent {
		if s.Ended.Sub(s.Began) > 200*time.Millisecond && s.Began.UnixNano() == write.UnixNano() {
			return
		}
	}
	t.Error("no write was told as long as it took")
}

// TestReceiversThatPanic end their own connection, with the lock held and without.
func TestReceiversThatPanic(t *testing.T) {
	for _, in := range []string{"Sent", "Written"} {
		t.Run(in, func(t *testing.T) {
			errs := make(chan error, 1)
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/" {
					return
				}
				p := w.(pull.Puller)
				f := &told{puller: p}
				f.wake = p.Wake
				f.add(nil, "event")
				errs <- p.Pull(r.Context(), &panickingReceiver{f, in})
			}), ours(h2.Config{}))
			other := s.client(t)
			get(t, other, s.url("/other"))
			resp, err := s.client(t).Get(s.url("/"))
			if err == nil { // the head came before
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			if err == nil {
				t.Error("the client is not told")
			}
			if err := <-errs; err == nil {
				t.Error("the handler is not told")
			}
			until(t, "a log of where it panicked", func() bool {
				return strings.Contains(s.log.String(), "(*panickingReceiver)."+in)
			})
			if resp, _ := get(t, other, s.url("/other")); resp.StatusCode != 200 {
				t.Error("another connection did not survive")
			}
		})
	}
}

// panickingReceiver panics in one of its methods.
type panickingReceiver struct {
	*told
	in string
}

func (p *panickingReceiver) Sent(w *pull.Write, n int, shut *pull.WindowStall) {
	if p.told.Sent(w, n, shut); p.in == "Sent" {
		panic("trouble")
	}
}

func (p *panickingReceiver) Written(w *pull.Write) {
	if p.told.Written(w); p.in == "Written" {
		panic("trouble")
	}
}
