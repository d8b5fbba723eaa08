package h2

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// onHeaders opens a stream, or ends a request's body with trailers.
func (c *conn) onHeaders(f *http2.MetaHeadersFrame) error {
	id := f.StreamID
	if id%2 == 0 {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.phase == draining && id > c.mu.lastStreamID {
		return nil
	}
	if s := c.mu.streams[id]; s != nil {
		return c.onTrailersLocked(s, f)
	}
	if id <= c.mu.lastStreamID {
		if known, err := c.onLateTrailersLocked(f); known {
			return err
		}
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	c.mu.lastStreamID = id
	c.countCrossingLocked()
	if len(c.mu.streams)+len(c.mu.discards.bodies) >= int(c.server.cfg.MaxConcurrentStreams) && !c.makeRoomLocked() {
		if c.mu.settingsAcked {
			return streamError(id, http2.ErrCodeProtocol)
		}
		return streamError(id, http2.ErrCodeRefusedStream)
	}
	if f.HasPriority() && f.Priority.StreamDep == id {
		return streamError(id, http2.ErrCodeProtocol)
	}
	req, err := c.request(f)
	if err != nil {
		return http2.StreamError{StreamID: id, Code: http2.ErrCodeProtocol, Cause: err}
	}
	return c.beginLocked(f, req)
}

// beginLocked opens a stream and starts its handler.
func (c *conn) beginLocked(f *http2.MetaHeadersFrame, req *http.Request) error {
	s := &stream{conn: c, id: f.StreamID, declaredLength: req.ContentLength, handler: c.handler}
	s.changed.L = &c.mu
	s.out = outflow(c.mu.initialWindow)
	s.in = newInflow(c.server.cfg.MaxUploadBufferPerStream)
	ctx, cancel := context.WithCancel(c.ctx)
	s.cancel = cancel
	s.request = req.WithContext(ctx)
	s.response = response{stream: s, length: -1}
	if f.StreamEnded() {
		s.state = remoteClosed
	} else {
		s.body = newBody(s)
		s.request.Body = s.body
	}
	switch {
	case f.Truncated:
		s.handler = refusalHandler(http.StatusRequestHeaderFieldsTooLarge, "Request Header Field(s) Too Large")
	default:
		if reason := connectionHeader(req.Header); reason != "" {
			s.handler = refusalHandler(http.StatusBadRequest, reason)
		}
	}
	c.mu.streams[s.id] = s
	if len(c.mu.streams) == 1 {
		c.setStateLocked(http.StateActive)
	}
	if t := c.hs.ReadTimeout; t > 0 {
		s.setReadTimerLocked(t)
	}
	if t := c.hs.WriteTimeout; t > 0 {
		s.setWriteTimerLocked(t)
	}
	return c.startLocked(s)
}

// startLocked lets the reader start a handler, or queues the stream until another handler
// ends. Otherwise a client that opens and resets streams in a row would have any number of
// handlers running.
func (c *conn) startLocked(s *stream) error {
	limit := int(c.server.cfg.MaxConcurrentStreams)
	if c.mu.runningHandlers < limit {
		c.mu.runningHandlers++
		c.nextToStart = s
		return nil
	}
	if len(c.mu.waitingStreams) > 4*limit {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	c.mu.waitingStreams = append(c.mu.waitingStreams, s)
	return nil
}

// handlerEnded starts the next handler that waits.
func (c *conn) handlerEnded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.runningHandlers--
	for len(c.mu.waitingStreams) > 0 {
		s := c.mu.waitingStreams[0]
		c.mu.waitingStreams[0] = nil
		c.mu.waitingStreams = c.mu.waitingStreams[1:]
		if s.state != streamClosed {
			c.mu.runningHandlers++
			c.server.run(s)
			return
		}
	}
	c.mu.waitingStreams = nil
}

func (c *conn) onTrailersLocked(s *stream, f *http2.MetaHeadersFrame) error {
	if s.state != open {
		return streamError(s.id, http2.ErrCodeStreamClosed)
	}
	if !f.StreamEnded() || len(f.PseudoFields()) > 0 {
		return streamError(s.id, http2.ErrCodeProtocol)
	}
	trailer := make(http.Header)
	for _, field := range f.RegularFields() {
		name := c.nameCache.canonical(field.Name)
		if !httpguts.ValidTrailerHeader(name) {
			return streamError(s.id, http2.ErrCodeProtocol)
		}
		trailer[name] = append(trailer[name], field.Value)
	}
	s.body.setTrailer(trailer)
	s.endRemoteLocked()
	return nil
}

// errMalformed is the cause of a reset for a malformed request (RFC 9113, 8.1.1).
var errMalformed = errors.New("h2: malformed request")

// request makes a request of the header fields. The caller sets its body and context.
func (c *conn) request(f *http2.MetaHeadersFrame) (*http.Request, error) {
	pseudo := func(name string) string { return f.PseudoValue(name) }
	method, scheme, authority, path := pseudo("method"), pseudo("scheme"), pseudo("authority"), pseudo("path")
	switch {
	case pseudo("protocol") != "":
		return nil, errMalformed
	case method == http.MethodConnect:
		if path != "" || scheme != "" || authority == "" { // RFC 9113, 8.5
			return nil, errMalformed
		}
	case method == "" || path == "" || scheme != "https" && scheme != "http":
		return nil, errMalformed
	}
	if strings.Contains(authority, "@") {
		return nil, errMalformed
	}
	header := c.header(f.RegularFields())
	if authority == "" {
		authority = header.Get("Host")
	}
	req := &http.Request{
		Method: method, RequestURI: path, Header: header, Host: authority, RemoteAddr: c.remote,
		Proto: "HTTP/2.0", ProtoMajor: 2, Body: http.NoBody,
	}
	if scheme == "https" {
		req.TLS = c.tls
	}
	if method == http.MethodConnect {
		req.URL, req.RequestURI = &url.URL{Host: authority}, authority
	} else {
		var err error
		if req.URL, err = url.ParseRequestURI(path); err != nil {
			return nil, err
		}
	}
	req.Trailer = announcedTrailers(header)
	if cookies := header["Cookie"]; len(cookies) > 1 {
		header["Cookie"] = []string{strings.Join(cookies, "; ")}
	}
	if !f.StreamEnded() {
		req.ContentLength = bodyLength(header)
	}
	return req, nil
}

// header collects header fields. The first values of all names share one array.
func (c *conn) header(fields []hpack.HeaderField) http.Header {
	header := make(http.Header, len(fields))
	values := make([]string, 0, len(fields))
	for _, field := range fields {
		name := c.nameCache.canonical(field.Name)
		if have := header[name]; have != nil {
			header[name] = append(have, field.Value)
			continue
		}
		values = append(values, field.Value)
		header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	return header
}

// bodyLength returns the declared Content-Length. It returns -1 if there is none, and 0 if it is
// no number.
func bodyLength(header http.Header) int64 {
	declared := header["Content-Length"]
	if len(declared) == 0 {
		return -1
	}
	n, err := strconv.ParseUint(declared[0], 10, 63)
	if err != nil {
		return 0
	}
	return int64(n)
}

// announcedTrailers removes Trailer from a header and returns the names in it, with nil
// values.
func announcedTrailers(header http.Header) http.Header {
	var trailer http.Header
	for _, line := range header["Trailer"] {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			switch name {
			case "", "Transfer-Encoding", "Trailer", "Content-Length":
				continue
			}
			if trailer == nil {
				trailer = make(http.Header)
			}
			trailer[name] = nil
		}
	}
	delete(header, "Trailer")
	return trailer
}

// connectionHeader returns a reason to refuse a request that has a connection-specific
// header (RFC 9113, 8.2.2). It returns "" if no header is connection-specific.
func connectionHeader(header http.Header) string {
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade"} {
		if _, ok := header[name]; ok {
			return fmt.Sprintf("request header %q is not valid in HTTP/2", name)
		}
	}
	if te := header["Te"]; len(te) > 1 || len(te) == 1 && te[0] != "" && te[0] != "trailers" {
		return `request header "TE" may only be "trailers" in HTTP/2`
	}
	return ""
}

// refusalHandler answers an invalid request in place of the server's handler.
func refusalHandler(status int, reason string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, reason, status)
	})
}
