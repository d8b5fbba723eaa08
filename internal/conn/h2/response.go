package h2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

var (
	errLongResponse = errors.New("h2: handler wrote more than declared Content-Length")
	errReturned     = errors.New("h2: response used after its handler has returned")
)

// maxImpliedLength is the longest answer that gets a Content-Length without the handler's
// doing. Go's server buffers, and so knows, as much.
const maxImpliedLength = 4 << 10

// buffer gathers small writes of a handler.
type buffer struct {
	n     int
	bytes [maxPayload]byte
}

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func (b *buffer) release() {
	if b != nil {
		b.n = 0
		buffers.Put(b)
	}
}

// response is the http.ResponseWriter of a stream. Only the handler's goroutine uses it.
type response struct {
	stream *stream
	header http.Header
	// head is set by WriteHeader. It is sent with the first bytes or a flush.
	head     *head
	headSent bool
	returned bool
	buffer   *buffer
	written  int64
	length   int64 // declared by the handler, -1 if it was not
}

var (
	_ http.ResponseWriter                    = (*response)(nil)
	_ http.Flusher                           = (*response)(nil)
	_ io.StringWriter                        = (*response)(nil)
	_ interface{ CloseNotify() <-chan bool } = (*response)(nil)
)

// Header implements http.ResponseWriter.
func (r *response) Header() http.Header {
	if r.header == nil {
		r.header = make(http.Header)
	}
	return r.header
}

// Status returns the status of the response. It returns 0 before it was set. Only the
// handler's goroutine may call it.
func (r *response) Status() int {
	if r.head == nil {
		return 0
	}
	return r.head.status
}

// WriteHeader implements http.ResponseWriter.
func (r *response) WriteHeader(status int) {
	switch {
	case r.head != nil || r.returned:
		return
	case status < 100 || status > 999:
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	case status < 200:
		r.stream.inform(newHead(status, r.header))
		return
	}
	r.head = newHead(status, r.header)
	r.length = r.head.length
}

// inform sends an informational (1xx) head, unless the response has begun.
func (s *stream) inform(h *head) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.state == streamClosed || s.headQueued {
		return
	}
	s.heads = append(s.heads, h)
	c.scheduleLocked(s)
	c.kick()
}

func (r *response) isHead() bool { return r.stream.request.Method == http.MethodHead }

// hasBody reports whether responses with a status have a body.
func hasBody(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified
}

// Write implements http.ResponseWriter. Small writes are gathered. A large write is not copied
// unless bytes are gathered already. Its bytes are sent from where they are, and Write returns
// when they have been framed.
func (r *response) Write(p []byte) (int, error) {
	if err := r.countWritten(len(p)); err != nil {
		return 0, err
	}
	for rest := p; len(rest) > 0; {
		if r.buffer == nil && len(rest) >= maxPayload {
			if err := r.send(rest, false); err != nil {
				return 0, err
			}
			break
		}
		if r.buffer == nil {
			r.buffer = buffers.Get().(*buffer)
		}
		n := copy(r.buffer.bytes[r.buffer.n:], rest)
		r.buffer.n += n
		if rest = rest[n:]; len(rest) > 0 {
			if err := r.send(nil, false); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

// WriteString implements io.StringWriter.
func (r *response) WriteString(text string) (int, error) {
	if r.buffer != nil && len(text) <= len(r.buffer.bytes)-r.buffer.n {
		if err := r.countWritten(len(text)); err != nil {
			return 0, err
		}
		r.buffer.n += copy(r.buffer.bytes[r.buffer.n:], text)
		return len(text), nil
	}
	return r.Write([]byte(text))
}

// countWritten counts n more bytes of the body. It returns an error if the response
// cannot have them.
func (r *response) countWritten(n int) error {
	if r.returned {
		return errReturned
	}
	r.WriteHeader(http.StatusOK)
	if !hasBody(r.head.status) {
		return http.ErrBodyNotAllowed
	}
	if r.written += int64(n); r.length >= 0 && r.written > r.length {
		return errLongResponse
	}
	return nil
}

// send hands the gathered bytes, and lent bytes after them, to the connection. If it
// returns nil, lent bytes have been framed.
func (r *response) send(lent []byte, ends bool) error {
	s, c := r.stream, r.stream.conn
	begins := !r.headSent
	if begins {
		r.headSent = true
		r.complete(lent, ends)
	}
	b := r.buffer
	r.buffer = nil
	if r.isHead() {
		b.release()
		if !begins {
			return nil
		}
		b, lent, ends = nil, nil, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if begins && r.head.closesConn {
		c.goAwayAfterLocked(s, ends)
	}
	if begins && s.state != streamClosed {
		s.headQueued = true
		s.heads = append(s.heads, r.head)
	}
	if ends && s.state == open && c.discardBodyLocked(s) != nil {
		go c.close()
	}
	if err := s.queueBytesLocked(b, lent); err != nil {
		return err
	}
	c.scheduleLocked(s)
	if ends {
		s.ends = true
		if !r.isHead() {
			s.trailers = r.trailers()
		}
		c.scheduleLocked(s)
		c.writeOwnLocked(s)
		return nil
	}
	c.kick()
	for len(lent) > 0 && len(s.chunks) > 0 && s.state != streamClosed {
		s.changed.Wait()
	}
	if s.state == streamClosed {
		return s.err
	}
	return nil
}

// complete adds the header fields that the handler left to the server.
func (r *response) complete(lent []byte, ends bool) {
	h := r.head
	content := lent
	if r.buffer != nil {
		content = r.buffer.bytes[:r.buffer.n]
	}
	if hasBody(h.status) {
		if h.length < 0 && ends && len(content) <= maxImpliedLength && (len(content) > 0 || !r.isHead()) {
			h.setLength(int64(len(content)))
		}
		if !h.hasEncoding && !h.hasType && len(content) > 0 {
			h.add("Content-Type", []string{http.DetectContentType(content)})
		}
	}
	if !h.hasDate {
		h.add("Date", []string{r.stream.conn.server.dateHeader()})
	}
}

// trailers returns the trailers that the handler announced, and the headers with
// http.TrailerPrefix. It returns nil if none of them has a value.
func (r *response) trailers() *head {
	h := &head{}
	for name, values := range r.header {
		if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			if name = http.CanonicalHeaderKey(name); httpguts.ValidTrailerHeader(name) {
				h.add(name, values)
			}
		}
	}
	for _, name := range r.head.trailers {
		if _, ok := r.header[http.TrailerPrefix+name]; !ok && httpguts.ValidTrailerHeader(name) {
			h.add(name, r.header[name])
		}
	}
	if len(h.fields) == 0 {
		return nil
	}
	return h
}

// finish sends the rest of the response after the handler has returned.
func (r *response) finish() {
	r.WriteHeader(http.StatusOK)
	_ = r.send(nil, true) // no handler is left to return the error to
	r.returned = true
}

// abandon drops the gathered bytes.
func (r *response) abandon() {
	r.returned = true
	r.buffer.release()
	r.buffer = nil
}

// Flush implements http.Flusher.
func (r *response) Flush() { _ = r.FlushError() }

// FlushError implements http.ResponseController's Flush. It sends what was written so
// far. It waits for bytes of earlier flushes, but not for these. The error is the reason
// why the stream ended.
func (r *response) FlushError() error {
	if r.returned {
		return errReturned
	}
	r.WriteHeader(http.StatusOK)
	return r.send(nil, false)
}

// SetReadDeadline implements http.ResponseController's method.
func (r *response) SetReadDeadline(at time.Time) error {
	s := r.stream
	s.setDeadline(&s.readTimer, at, s.readTooLong)
	return nil
}

// SetWriteDeadline implements http.ResponseController's method. A response that is not
// complete by then is reset.
func (r *response) SetWriteDeadline(at time.Time) error {
	s := r.stream
	s.setDeadline(&s.writeTimer, at, s.writeTooLong)
	return nil
}

// EnableFullDuplex implements http.ResponseController's method: HTTP/2 always is
// full-duplex.
func (r *response) EnableFullDuplex() error { return nil }

// CloseNotify implements the deprecated http.CloseNotifier. Kubernetes requires it of
// writers that can flush.
func (r *response) CloseNotify() <-chan bool {
	gone := make(chan bool, 1)
	context.AfterFunc(r.stream.request.Context(), func() { gone <- true })
	return gone
}
