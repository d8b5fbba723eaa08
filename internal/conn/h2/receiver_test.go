package h2_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/millrace/millrace/internal/conn/h2"
	"github.com/millrace/millrace/internal/conn/pull"
)

// recordingFeed is a feed that records the calls of Placed and Written.
type recordingFeed struct {
	feed
	mu sync.Mutex
	// inWrite are parts in a write that has not returned; delivered are those in writes
	// that have. number is the number of the last write.
	inWrite   []part
	delivered []delivery
	number    uint64
	puller    pull.Puller
}

// inFlight reports whether the last write has not returned.
func (f *recordingFeed) inFlight() (is bool) {
	f.puller.WithLock(func(returned uint64) {
		f.mu.Lock()
		defer f.mu.Unlock()
		is = f.number > returned
	})
	return is
}

// delivery is a part and the write that carried it.
type delivery struct {
	pull.Write
	part
}

// part is the arguments of one call of Placed.
type part struct {
	bytes int
	stall pull.WindowStall
}

func (f *recordingFeed) Placed(w *pull.Write, bytes int, stall *pull.WindowStall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := part{bytes: bytes}
	if stall != nil {
		p.stall = *stall
	}
	f.inWrite, f.number = append(f.inWrite, p), w.Number
	all, _ := w.Local.([]*recordingFeed)
	w.Local = append(all, f)
}

func (f *recordingFeed) Written(w *pull.Write) {
	for _, f := range w.Local.([]*recordingFeed) {
		f.mu.Lock()
		for _, p := range f.inWrite {
			f.delivered = append(f.delivered, delivery{*w, p})
		}
		f.inWrite = nil
		f.mu.Unlock()
	}
}

// total returns the number of delivered bytes and the last delivery.
func (f *recordingFeed) total() (n int, last delivery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.delivered {
		n += s.bytes
		last = s
	}
	return n, last
}

// recordingHandler answers with recordingFeeds and hands them to the test.
type recordingHandler chan *recordingFeed

func (p recordingHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := &recordingFeed{puller: w.(pull.Puller)}
	f.wake = f.puller.Wake
	p <- f
	_ = f.puller.Pull(r.Context(), f)
}

// waitUntil waits for a condition.
func waitUntil(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx := testContext(t); !is(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// TestPlacedReportsWindowStall sends more than the client's window allows.
func TestPlacedReportsWindowStall(t *testing.T) {
	handler := make(recordingHandler, 1)
	s := serve(t, handler, ours(h2.Config{}))
	p := dial(t, s.addr)
	p.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
	p.headers(1, true, p.get("/"))
	f := <-handler
	f.add(nil, "0123456789abcdef")
	waitUntil(t, "the window's worth", func() bool { n, _ := f.total(); return n == 10 })
	if _, last := f.total(); !last.stall.Since.IsZero() || last.FillBegan.After(last.Began) || last.Began.After(last.Ended) || last.FillBegan.IsZero() {
		t.Errorf("the last delivery is %+v", last)
	}
	waitUntil(t, "Waits to report the shut window", func() bool { window, _ := f.puller.Waits(); return !window.IsZero() })
	shut, write := f.puller.Waits()
	if !write.IsZero() {
		t.Error("Waits reports a write although none is in progress")
	}
	waitUntil(t, "time to pass", func() bool { return time.Since(shut) > 20*time.Millisecond })
	if err := p.WriteWindowUpdate(1, 1000); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the rest", func() bool { n, _ := f.total(); return n == 16 })
	if _, last := f.total(); last.BusySince.After(shut) {
		t.Errorf("the connection was idle while the window was shut: %+v", last)
	}
	if _, last := f.total(); !last.stall.Since.Equal(shut) || last.stall.For < 20*time.Millisecond || last.stall.For > last.Ended.Sub(shut) {
		t.Errorf("the last delivery is %+v", last)
	}
	if window, _ := f.puller.Waits(); !window.IsZero() {
		t.Error("Waits reports a shut window although it is open")
	}
	f.add(nil, "x")
	waitUntil(t, "one more", func() bool { n, _ := f.total(); return n == 17 })
	if _, last := f.total(); !last.BusySince.After(shut) {
		t.Errorf("the connection was not idle after everything was sent: %+v", last)
	}
	if _, last := f.total(); !last.stall.Since.IsZero() {
		t.Errorf("the stall is still reported after everything was sent: %+v", last)
	}
}

// TestWaitsReportsBlockedWrite sends more than the connection takes.
func TestWaitsReportsBlockedWrite(t *testing.T) {
	handler := make(recordingHandler, 1)
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
	waitUntil(t, "a write that waits", func() bool {
		for range 16 {
			f.add(nil, part)
			given += len(part)
		}
		window, write := f.puller.Waits()
		return window.IsZero() && !write.IsZero() && time.Since(write) > 200*time.Millisecond
	})
	_, write := f.puller.Waits()
	if n, _ := f.total(); n >= given {
		t.Errorf("%d bytes of %d were delivered to a client that does not read", n, given)
	}
	if !f.inFlight() {
		t.Error("the blocked write is counted as returned")
	}
	go func() { // until the connection ends
		for {
			if _, err := p.ReadFrame(); err != nil {
				return
			}
		}
	}()
	waitUntil(t, "all to be sent", func() bool { n, _ := f.total(); return n == given })
	waitUntil(t, "the last write to be counted", func() bool { return !f.inFlight() })
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.delivered {
		if s.Ended.Sub(s.Began) > 200*time.Millisecond && s.Began.UnixNano() == write.UnixNano() {
			return
		}
	}
	t.Error("no delivery reports the blocked write with its duration")
}

// TestReceiverPanics has receivers that panic, with the connection's lock held and
// without. Only that connection may end.
func TestReceiverPanics(t *testing.T) {
	for _, in := range []string{"Placed", "Written"} {
		t.Run(in, func(t *testing.T) {
			errs := make(chan error, 1)
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/" {
					return
				}
				p := w.(pull.Puller)
				f := &recordingFeed{puller: p}
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
				t.Error("the client sees no error")
			}
			if err := <-errs; err == nil {
				t.Error("Pull returned no error")
			}
			waitUntil(t, "a log of where it panicked", func() bool {
				return strings.Contains(s.log.String(), "(*panickingReceiver)."+in)
			})
			if resp, _ := get(t, other, s.url("/other")); resp.StatusCode != 200 {
				t.Error("another connection did not survive")
			}
		})
	}
}

// panickingReceiver panics in the method that in names.
type panickingReceiver struct {
	*recordingFeed
	in string
}

func (p *panickingReceiver) Placed(w *pull.Write, n int, stall *pull.WindowStall) {
	if p.recordingFeed.Placed(w, n, stall); p.in == "Placed" {
		panic("trouble")
	}
}

func (p *panickingReceiver) Written(w *pull.Write) {
	if p.recordingFeed.Written(w); p.in == "Written" {
		panic("trouble")
	}
}
