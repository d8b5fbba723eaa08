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

// body is the body of a request. The stream's flow-control window bounds the bytes that
// it holds. Its lock is taken after conn.mu.
type body struct {
	stream *stream

	mu struct {
		sync.Mutex
		data []byte
		// read is the number of bytes of data that the handler has read.
		read int
		// err is returned after data. Once it is set, no more data is added.
		err     error
		trailer http.Header
		// expectsContinue says that the client waits for a 100 Continue before it sends
		// the body.
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

// write appends bytes that the client sent. It returns false if the body is closed and
// they were dropped.
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

// fail ends the body with an error after the data. Only the first call counts.
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

// waitAndCopy waits until there are bytes, copies them to p, and counts them as read.
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
		// Trailers that the request did not announce are not shown.
		for name, values := range m.trailer {
			if _, ok := b.stream.request.Trailer[name]; ok {
				b.stream.request.Trailer[name] = values
			}
		}
		m.trailer = nil
	}
	return 0, m.err
}

// Close implements io.Closer. The rest of the body is dropped.
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

// discard drops the body when its handler has returned. The caller credits its bytes to
// the client.
func (b *body) discard() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.data, b.mu.read = nil, 0
	if b.mu.err == nil {
		b.mu.err = errHandlerComplete
		b.changed.Broadcast()
	}
}

// sendContinue sends a 100 Continue if the client waits for it.
func (b *body) sendContinue() {
	b.mu.Lock()
	expects := b.mu.expectsContinue
	b.mu.expectsContinue = false
	b.mu.Unlock()
	if expects {
		b.stream.inform(&head{status: http.StatusContinue})
	}
}

// creditRead gives the client credit for n bytes that the handler has read or dropped. It does
// so on the connection, and on the stream too if the handler reads on.
func (s *stream) creditRead(n int, readsOn bool) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.state == streamClosed || s.discard != nil {
		return // all unread bytes have been credited already
	}
	s.unread -= n
	err := c.creditLocked(nil, n)
	if err == nil && readsOn && s.state == open {
		err = c.creditLocked(s, n)
	}
	if err != nil {
		go c.close()
	}
}
