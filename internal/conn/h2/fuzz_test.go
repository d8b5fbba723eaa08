package h2_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/conn/h2"
	"github.com/millrace/millrace/internal/conn/pull"
)

// recorder is a connection that records what is written to it.
type recorder struct {
	net.Conn
	bytes.Buffer
}

func (r *recorder) Read([]byte) (int, error)    { return 0, io.EOF }
func (r *recorder) Write(p []byte) (int, error) { return r.Buffer.Write(p) }

// FuzzInput sends arbitrary bytes as a client. Nothing may panic. The connection and its
// handlers must end when the client has gone.
func FuzzInput(f *testing.F) {
	for _, v := range violations() {
		r := new(recorder)
		if v.say(newPeer(f, r)); r.Len() < 1<<16 {
			f.Add(r.Bytes())
		}
	}
	var handlers atomic.Int64
	s := serve(f, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers.Add(1)
		defer handlers.Add(-1)
		switch r.URL.Path {
		case "/":
			_ = w.(pull.Puller).Pull(r.Context(), &feed{pending: [][]byte{[]byte(size40K)}})
		case "/read":
			_, _ = io.Copy(w, r.Body)
		default:
			_, _ = io.WriteString(w, size40K)
		}
	}), ours(h2.Config{MaxConcurrentStreams: 10}))
	f.Fuzz(func(t *testing.T, input []byte) {
		c, err := tls.Dial("tcp", s.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err != nil {
			t.Skip(err) // the machine has no more ports
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(testTimeout))
		go func() {
			_, _ = c.Write(input)
			_ = c.CloseWrite()
		}()
		// The connection may end at any point, but it must end.
		if _, err := io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Fatal("the connection does not end")
		}
		for deadline := time.Now().Add(testTimeout); handlers.Load() > 0; runtime.Gosched() {
			if time.Now().After(deadline) {
				t.Fatal("handlers do not end")
			}
		}
		if text := s.log.String(); strings.Contains(text, "panic") {
			t.Fatal(text)
		}
	})
}
