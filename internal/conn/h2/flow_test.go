package h2_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/millrace/millrace/internal/conn/h2"
)

// TestUploadWindows sends bodies that are larger than all windows, to handlers that read
// them and to handlers that do not.
func TestUploadWindows(t *testing.T) {
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/read":
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n, err)
		case "/close":
			_, _ = io.ReadFull(r.Body, make([]byte, 10))
			_ = r.Body.Close()
		}
	}), ours(h2.Config{MaxUploadBufferPerConnection: 100_000, MaxUploadBufferPerStream: 70_000}))
	c := s.client(t)
	for i := range 60 {
		path := []string{"/read", "/unread", "/close"}[i%3]
		req, _ := http.NewRequestWithContext(testContext(t), "POST", s.url(path), strings.NewReader(size1M))
		resp, err := c.Do(req)
		if err != nil {
			t.Fatalf("request %d, %s: %v", i, path, err)
		}
		content, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || path == "/read" && string(content) != fmt.Sprint(len(size1M), nil) {
			t.Fatalf("request %d, %s: got %q, %v", i, path, content, err)
		}
	}
}

// TestSharedWindow has streams that wait for the connection's window, which grows in
// small steps. Each of them must get its share.
func TestSharedWindow(t *testing.T) {
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100_000)) }), ours(h2.Config{}))
	c := dial(t, s.addr)
	c.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	const streams = 10
	for i := range uint32(streams) {
		c.headers(1+2*i, true, c.get("/"))
	}
	got, ended := make(map[uint32]int), 0
	for ended < streams {
		f := c.next()
		if f == nil {
			t.Fatal("the connection ended")
		}
		data, ok := f.(*http2.DataFrame)
		if !ok {
			continue
		}
		if n := len(data.Data()); n > 0 {
			got[data.StreamID] += n
			_ = c.WriteWindowUpdate(0, uint32(n))
		}
		if data.StreamEnded() {
			ended++
		}
	}
	for id, n := range got {
		if n != 100_000 {
			t.Errorf("stream %d received %d bytes, want 100000", id, n)
		}
	}
}
