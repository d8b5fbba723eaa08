package h2_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"weak"

	"golang.org/x/net/http2"

	"github.com/millrace/millrace/internal/conn/h2"
	"github.com/millrace/millrace/internal/conn/pull"
)

// closingHandler serves streams that the client resets as soon as they have something to
// send.
type closingHandler struct {
	// answered receives a request when its answer waits to be sent. ended receives a
	// value when the request's handler has returned.
	answered chan weak.Pointer[http.Request]
	ended    chan struct{}
}

func (c *closingHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/large":
		_, _ = w.Write(make([]byte, 1<<20))
		return
	case "/flushed":
		_, _ = io.WriteString(w, "answer")
		flush(w)
		c.answered <- weak.Make(r)
		<-r.Context().Done()
	case "/woken":
		source := &feed{}
		source.wake = w.(pull.Puller).Wake
		source.add(nil, "event")
		c.answered <- weak.Make(r)
		_ = w.(pull.Puller).Pull(r.Context(), source)
		source.wake() // after Pull it has no effect
	}
	c.ended <- struct{}{}
}

// TestClosedStreamsAreForgotten resets streams that wait to be sent while the client lets
// nothing through. The server must release all their memory.
func TestClosedStreamsAreForgotten(t *testing.T) {
	const most = 1<<31 - 1
	for _, c := range []struct {
		name, path string
		// window is the connection's window. reads says whether the client reads.
		window uint32
		reads  bool
	}{
		{"the connection's window is used up", "/flushed", 0, true},
		{"the client does not read", "/flushed", most - 65535, false},
		{"woken while the client does not read", "/woken", most - 65535, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			handler := &closingHandler{make(chan weak.Pointer[http.Request], 1), make(chan struct{}, 1)}
			s := serve(t, handler, ours(h2.Config{}), smallBuffers)
			p := dial(t, s.addr)
			p.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: most})
			if c.window > 0 {
				_ = p.WriteWindowUpdate(0, c.window)
			}
			p.headers(1, true, p.get("/large"))
			if c.reads {
				for got := 0; got < 65535; {
					if data, ok := p.next().(*http2.DataFrame); ok {
						got += len(data.Data())
					}
				}
				go func() { _, _ = io.Copy(io.Discard, p.Conn) }()
			}
			large := strings.Repeat("~", 10<<10)
			var requests []weak.Pointer[http.Request]
			for id := uint32(3); len(requests) < 1000; id += 2 {
				p.headers(id, true, p.get(c.path, "x-large", large))
				requests = append(requests, <-handler.answered)
				_ = p.WriteRSTStream(id, http2.ErrCodeCancel)
				<-handler.ended
			}
			waitUntil(t, "the requests to be forgotten", func() bool {
				runtime.GC()
				kept := 0
				for _, r := range requests {
					if r.Value() != nil {
						kept++
					}
				}
				return kept <= 2*100
			})
		})
	}
}
