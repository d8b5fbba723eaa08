package h2

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"golang.org/x/net/http/httpguts"
)

var (
	errBodyClosed  = errors.New("h2: request body closed by its handler")
	errLongRequest = errors.New("h2: client sent more than its Content-Length")
)

// body is a request's body. What it holds is bounded by the stream's window. Its
// lock comes behind the connection's.
type body struct {
	stream *stream

	mu struct {
		sync.Mutex
		data []byte
		// read is how much of data was read.
		read int
		// err comes behind the data. What comes later is dropped.
		err     error
		trailer http.Header
		// continues says that the client waits for leave to send (Expect: 100-continue).
		expectsContinue bool
	}
	changed sync.Cond
}

func newBody(s *stream) *body {
	b := &body{stream: s}
	b.changed.L = &b.mu
	header := s.request.Header
	if httpguts.HeaderValuesContainsToken(header["Expect"], "100-continue") {
		b.mu.expectsContinue = true
		delete(header, "Expect")
	}
	return b
}

// write adds what came. It returns false if nobody will read it.
func (b *body) write(data []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := &b.mu
	if m.err != nil {
		return false
	}
	if m.data == nil && b.stream.declaredLength > 0 {
		m.data = make([]byte, 0, min(b.stream.declaredLength, 64<<10))
	}
	if m.read > 0 && cap(m.data)-len(m.data) < len(data) {
		m.data = m.data[:copy(m.data, m.data[m.read:])]
		m.read = 0
	}
	m.data = append(m.data, data...)
	b.changed.Broadcast()
	return true
}

func (b *body) setTrailer(trailer http.Header) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.trailer = trailer
}

func (b *body) end() { b.fail(io.EOF) }

// fail ends the body behind what came. The first reason counts.
func (b *body) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.err == nil {
		b.mu.err = err
		b.changed.Broadcast()
	}
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.sendContinue()
	n, err := b.waitAndCopy(p)
	if n > 0 {
		b.stream.creditRead(n, true)
	}
	return n, err
}

// waitAndCopy waits for something to read.
func (b *body) waitAndCopy(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := &b.mu
	for m.read == len(m.data) && m.err == nil && len(p) > 0 {
		b.changed.Wait()
	}
	if m.read < len(m.data) {
		n := copy(p, m.data[m.read:])
		if m.read += n; m.read == len(m.data) {
			m.data, m.read = m.data[:0], 0
		}
		return n, nil
	}
	if m.err == io.EOF {
		m.data = nil
		// Only trailers that were announced are shown.
		for name, values := range m.trailer {
			if _, ok := b.stream.request.Trailer[name]; ok {
				b.stream.request.Trailer[name] = values
			}
		}
		m.trailer = nil
	}
	return 0, m.err
}

// Close implements io.Closer: nobody reads the rest.
func (b *body) Close() error {
	b.mu.Lock()
	dropped := len(b.mu.data) - b.mu.read
	b.mu.data, b.mu.read = nil, 0
	if b.mu.err == nil || dropped > 0 {
		b.mu.err = errBodyClosed
	}
	b.mu.Unlock()
	if dropped > 0 {
		b.stream.creditRead(dropped, false)
	}
	return nil
}

// discard lets go of the body when its handler has returned. Its window is given back by
// the caller.
func (b *body) discard() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.data, b.mu.read = nil, 0
	if b.mu.err == nil {
		b.mu.err = errHandlerComplete
		b.changed.Broadcast()
	}
}

// sendContinue tells a client that waits to send its body.
func (b *body) sendContinue() {
	b.mu.Lock()
	expects := b.mu.expectsContinue
	b.mu.expectsContinue = false
	b.mu.Unlock()
	if expects {
		b.stream.inform(&head{status: http.StatusContinue})
	}
}

// creditRead lets the client send as much as the handler has read: on the
// connection, and on the stream if more of it will be read.
func (s *stream) creditRead(n int, more bool) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.state == streamClosed || s.discard != nil {
		return // with all that was unread
	}
	s.unread -= n
	err := c.creditLocked(nil, n)
	if err == nil && more && s.state == open {
		err = c.creditLocked(s, n)
	}
	if err != nil {
		go c.close()
	}
}
