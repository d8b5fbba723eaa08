package h2_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/conn/h2"
)

// TestReaderPanics has a panic in Config.Inline: in the connection's first reader, and in
// one that took over from it. Only that connection may end.
func TestReaderPanics(t *testing.T) {
	s := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/waits" {
			<-r.Context().Done()
		}
	}), ours(h2.Config{Inline: func(r *http.Request) *http.Request {
		if r.URL.Path == "/panics" {
			panic("trouble in " + r.URL.Path)
		}
		return r
	}}))
	other := dial(t, s.addr)
	other.greet()
	for _, first := range []string{"/", "/waits"} {
		p := dial(t, s.addr)
		p.greet()
		p.headers(1, true, p.get(first))
		p.headers(3, true, p.get("/panics"))
		p.waitClosed()
	}
	other.headers(1, true, other.get("/"))
	if got := other.answerTo(1); got != "200" {
		t.Errorf("another connection: got %s, want 200", got)
	}
	if got := strings.Count(s.log.String(), "trouble in /panics"); got != 2 {
		t.Errorf("the panics were logged %d times, want 2", got)
	}
}
