package h2_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/millrace/millrace/internal/conn/h2"
)

// earlyHandler answers without reading the request: / with a body, /close with an end of
// the connection as well, /abort with a panic.
func earlyHandler(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/close":
		w.Header().Set("Connection", "close")
	case "/abort":
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(http.StatusMethodNotAllowed)
	_, _ = io.WriteString(w, "early")
}

// upload is a client that sends request bodies within its windows, one after another.
type upload struct {
	*peer
	id uint32
	// conn and stream are the windows that are left.
	conn, stream int
	// answer is the response's body so far. ends says that it is complete. resets are
	// RST_STREAM frames of any stream.
	answer string
	ends   bool
	resets []string
}

// newUpload begins the first upload on a connection.
func newUpload(p *peer, path string) *upload {
	u := &upload{peer: p, conn: 65535}
	u.begin(1, path)
	return u
}

// begin begins another upload.
func (u *upload) begin(id uint32, path string) {
	u.headers(id, false, u.fields(":method", "POST", ":scheme", "https", ":authority", "h", ":path", path))
	u.id, u.stream, u.answer, u.ends = id, 256<<10, "", false
}

// step reads and handles one frame.
func (u *upload) step() http2.Frame {
	frame := u.next()
	switch f := frame.(type) {
	case nil:
		u.t.Fatalf("the connection ended after answer %q and resets %v", u.answer, u.resets)
	case *http2.WindowUpdateFrame:
		switch f.StreamID {
		case 0:
			u.conn += int(f.Increment)
		case u.id:
			u.stream += int(f.Increment)
		}
	case *http2.DataFrame:
		if f.StreamID == u.id {
			u.answer += string(f.Data())
			u.ends = f.StreamEnded()
		}
	case *http2.RSTStreamFrame:
		u.resets = append(u.resets, fmt.Sprintf("%d %s", f.StreamID, f.ErrCode))
	}
	return frame
}

// finish ends the body, with trailers or without, and waits until the server has handled
// that.
func (u *upload) finish(trailers bool) {
	if trailers {
		u.headers(u.id, true, u.fields("x-trailer", "t"))
	} else {
		_ = u.WriteData(u.id, true, nil)
	}
	_ = u.WritePing(false, [8]byte{})
	for {
		if f, ok := u.step().(*http2.PingFrame); ok && f.IsAck() {
			break
		}
	}
	if len(u.resets) > 0 {
		u.t.Fatalf("stream %d: resets %v", u.id, u.resets)
	}
}

// send sends n bytes, or fewer if the stream is reset.
func (u *upload) send(n int) {
	part := make([]byte, minFrame)
	for n > 0 && len(u.resets) == 0 {
		if u.conn < len(part) || u.stream < len(part) {
			u.step()
			continue
		}
		_ = u.WriteData(u.id, false, part)
		n, u.conn, u.stream = n-len(part), u.conn-len(part), u.stream-len(part)
	}
}

// minFrame is the size of the DATA frames that an upload sends.
const minFrame = 16 << 10

// read reads the answer to its end.
func (u *upload) read() {
	for !u.ends {
		u.step()
	}
	if u.status != "405" || u.answer != "early" || len(u.resets) > 0 {
		u.t.Fatalf("got %s %q, resets %v", u.status, u.answer, u.resets)
	}
}

// TestAnswerBeforeBodyEnds sends bodies that the handler does not read. The answer must
// come without a reset. The body may be sent to its end, before or after the answer is
// read.
func TestAnswerBeforeBodyEnds(t *testing.T) {
	s := serve(t, http.HandlerFunc(earlyHandler), ours(h2.Config{MaxConcurrentStreams: 4}))
	for _, window := range []uint32{65535, 0} {
		p := dial(t, s.addr)
		p.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
		u := newUpload(p, "/")
		for id := uint32(1); id < 40; id += 2 {
			if id > 1 {
				u.begin(id, "/")
			}
			u.send(2 << 20)
			if window == 0 {
				_ = p.WriteWindowUpdate(id, 1<<20)
			}
			u.read()
			u.finish(id%4 == 1)
		}
	}
}

// TestDiscardIsBounded checks that a client cannot send for ever after a reset. Frames that
// it sends before the reset has reached it must be dropped without an error.
func TestDiscardIsBounded(t *testing.T) {
	s := serve(t, http.HandlerFunc(earlyHandler), ours(h2.Config{}))
	for name, send := range map[string]func(u *upload){
		"too much": func(u *upload) { u.send(64 << 20) },
		"nothing":  func(*upload) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := dial(t, s.addr)
			p.greet()
			u := newUpload(p, "/")
			u.read()
			send(u)
			for len(u.resets) == 0 {
				u.step()
			}
			if got := strings.Join(u.resets, ", "); got != "1 NO_ERROR" {
				t.Fatal(got)
			}
			for u.stream >= minFrame {
				_ = p.WriteData(1, false, make([]byte, minFrame))
				u.stream -= minFrame
			}
			p.headers(1, true, p.fields("x-trailer", "t"))
			if got := p.answerTo(0); got != "" {
				t.Errorf("answer to bytes that were sent before the reset arrived: %s", got)
			}
			_ = p.WriteData(1, false, make([]byte, minFrame))
			if got := p.answerTo(0); got != "reset 1 STREAM_CLOSED" {
				t.Errorf("answer to bytes beyond the window: %s", got)
			}
		})
	}
}

// TestDiscardYieldsToNewStreams has more discarded bodies than there may be streams.
func TestDiscardYieldsToNewStreams(t *testing.T) {
	s := serve(t, http.HandlerFunc(earlyHandler), ours(h2.Config{MaxConcurrentStreams: 2}))
	p := dial(t, s.addr)
	p.greet()
	u := newUpload(p, "/")
	u.read()
	u.begin(3, "/")
	u.read()
	p.headers(5, true, p.get("/"))
	if got := p.answerTo(5); got != "reset 1 NO_ERROR, 405" {
		t.Error(got)
	}
	_ = p.WriteData(3, true, []byte("end"))
	if got := p.answerTo(0); got != "" {
		t.Error(got)
	}
}

// TestLateFramesOfResetStreams sends more frames of streams that the server has reset.
func TestLateFramesOfResetStreams(t *testing.T) {
	s := serve(t, http.HandlerFunc(earlyHandler), ours(h2.Config{}))
	for name, block := range map[string]func(p *peer) []byte{
		"INTERNAL_ERROR": func(p *peer) []byte { return p.get("/abort") },
		"PROTOCOL_ERROR": func(p *peer) []byte { return p.fields(":method", "GET") },
	} {
		p := dial(t, s.addr)
		p.greet()
		p.headers(1, false, block(p))
		if got := p.answerTo(1); got != "reset 1 "+name {
			t.Error(got)
		}
		_ = p.WriteData(1, false, []byte("late"))
		p.headers(1, true, p.fields("x-trailer", "t"))
		if got := p.answerTo(0); got != "" {
			t.Errorf("%s: late frames are answered with %s", name, got)
		}
	}
}

// TestDiscardAndGoAway sends a body that is discarded on a connection that the server is
// leaving. The GOAWAY must follow the body, and the connection must last while the client
// sends.
func TestDiscardAndGoAway(t *testing.T) {
	s := serve(t, http.HandlerFunc(earlyHandler), ours(h2.Config{}))
	p := dial(t, s.addr)
	p.greet()
	u := newUpload(p, "/close")
	u.read()
	u.send(1 << 20)
	if got := p.answerTo(0); got != "" {
		t.Errorf("before the body has ended: got %s, want nothing", got)
	}
	_ = p.WriteData(1, true, nil)
	if got := p.answerTo(0); got != "goaway NO_ERROR" {
		t.Errorf("after the body: got %s, want a GOAWAY", got)
	}
	p.waitClosed()

	p = dial(t, s.addr)
	p.greet()
	u = newUpload(p, "/close")
	u.read()
	_ = p.WriteGoAway(0, http2.ErrCodeNo, nil)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < 2500*time.Millisecond; <-tick.C {
		u.send(minFrame)
	}
	if got := p.answerTo(0); got != "" {
		t.Errorf("the connection did not last: %s", got)
	}
	p.waitClosed()
}

// TestGoAwayFollowsAnswer has handlers that ask for the connection's end. The answer must
// come before the GOAWAY, unless the answer goes on.
func TestGoAwayFollowsAnswer(t *testing.T) {
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		if r.URL.Path == "/goes-on" {
			flush(w)
			<-r.Context().Done()
		}
	}), ours(h2.Config{}))
	for path, want := range map[string]string{"/": "headers goaway", "/goes-on": "goaway headers"} {
		p := dial(t, s.addr)
		p.greet()
		p.headers(1, true, p.get(path))
		var got []string
		for len(got) < 2 {
			switch p.next().(type) {
			case *http2.HeadersFrame:
				got = append(got, "headers")
			case *http2.GoAwayFrame:
				got = append(got, "goaway")
			case nil:
				t.Fatal("the connection ended")
			}
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: got %s", path, got)
		}
	}
	p := dial(t, s.addr)
	p.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	p.headers(1, true, p.get("/"))
	_ = p.WriteRSTStream(1, http2.ErrCodeCancel)
	for {
		if _, ok := p.next().(*http2.GoAwayFrame); ok {
			return
		}
	}
}

// TestDiscardAndShutdown shuts down while a client sends a body that is discarded.
func TestDiscardAndShutdown(t *testing.T) {
	s := serve(t, http.HandlerFunc(earlyHandler), ours(h2.Config{}))
	p := dial(t, s.addr)
	p.greet()
	u := newUpload(p, "/")
	u.read()
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(testContext(t)) }()
	go func() {
		for p.next() != nil {
			continue
		}
	}()
	for began := time.Now(); ; {
		select {
		case err := <-down:
			if err != nil {
				t.Error(err)
			}
			return
		default:
			if _, err := p.Conn.Write(nil); err == nil && time.Since(began) < testTimeout {
				_ = p.WriteData(1, false, []byte("x"))
			}
		}
	}
}

// TestAbortWithoutWindow aborts an answer to a client with an empty flow-control window.
func TestAbortWithoutWindow(t *testing.T) {
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		flush(w)
		panic(http.ErrAbortHandler)
	}), ours(h2.Config{}))
	p := dial(t, s.addr)
	p.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	p.headers(1, true, p.get("/"))
	if got := p.answerTo(1); got != "reset 1 INTERNAL_ERROR" {
		t.Error(got)
	}
}
