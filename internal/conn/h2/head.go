package h2

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/millrace/millrace/internal/conn/pull"
)

// head is the head of a response, or its trailers, as it was when the handler wrote it.
type head struct {
	// status is 0 for trailers.
	status int
	fields []hpack.HeaderField // names are in Go's canonical form
	// hasType, hasDate and hasEncoding say that the handler itself has set Content-Type, Date
	// and Content-Encoding. closesConn says that it asked for the end of the connection.
	hasType, hasDate, hasEncoding, closesConn bool
	// length is the declared Content-Length. It is -1 if there is none.
	length int64
	// trailers are the names that the handler announced.
	trailers []string
}

// newHead copies a header: the handler may change it afterwards.
func newHead(status int, header http.Header) *head {
	h := &head{status: status, length: -1, fields: make([]hpack.HeaderField, 0, len(header)+3)}
	for name, values := range header {
		switch name {
		case "Content-Length":
			if status >= 200 {
				h.parseLength(values)
			}
			continue
		case "Connection":
			h.closesConn = len(values) > 0 && values[0] == "close"
			continue
		case "Transfer-Encoding", "Keep-Alive", "Proxy-Connection", "Upgrade":
			continue // HTTP/2 forbids these connection-specific fields
		case "Trailer":
			h.announceTrailers(values)
		case "Content-Type":
			h.hasType = true
		case "Content-Encoding":
			h.hasEncoding = len(values) > 0 && values[0] != ""
		case "Date":
			h.hasDate = true
		}
		h.add(name, values)
	}
	return h
}

func (h *head) parseLength(values []string) {
	if len(values) == 0 {
		return
	}
	if n, err := strconv.ParseUint(values[0], 10, 63); err == nil {
		h.setLength(int64(n))
	}
}

func (h *head) setLength(n int64) {
	h.length = n
	h.add("Content-Length", []string{strconv.FormatInt(n, 10)})
}

func (h *head) announceTrailers(values []string) {
	for _, line := range values {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); name != "" {
				h.trailers = append(h.trailers, http.CanonicalHeaderKey(name))
			}
		}
	}
}

func (h *head) add(name string, values []string) {
	for _, value := range values {
		if httpguts.ValidHeaderFieldValue(value) {
			h.fields = append(h.fields, hpack.HeaderField{Name: name, Value: value})
		}
	}
}

// appendHeadLocked encodes a head and appends its HEADERS and CONTINUATION frames to the
// batch.
func (c *conn) appendHeadLocked(s *stream, h *head, ends bool) {
	t := &c.mu.turn
	t.block.Reset()
	if h.status != 0 {
		c.appendFieldLocked(":status", strconv.Itoa(h.status))
	}
	for _, field := range h.fields {
		if name := t.nameCache.lower(field.Name); name != "" {
			c.appendFieldLocked(name, field.Value)
		}
	}
	block, kind := t.block.Bytes(), http2.FrameHeaders
	for first := true; first || len(block) > 0; first = false {
		n := min(len(block), minFrameSize)
		var flags http2.Flags
		if first && ends {
			flags |= http2.FlagHeadersEndStream
		}
		if n == len(block) {
			flags |= http2.FlagHeadersEndHeaders
		}
		t.batch = appendFrame(t.batch, kind, flags, s.id, n)
		t.batch = append(t.batch, block[:n]...)
		block, kind = block[n:], http2.FrameContinuation
	}
}

func (c *conn) appendFieldLocked(name, value string) {
	// Writes to a bytes.Buffer do not fail.
	_ = c.mu.turn.encoder.WriteField(hpack.HeaderField{Name: name, Value: value})
}

// appendFrame appends a frame header (RFC 9113, 4.1).
func appendFrame(b []byte, kind http2.FrameType, flags http2.Flags, id uint32, length int) []byte {
	return append(b, byte(length>>16), byte(length>>8), byte(length), byte(kind), byte(flags),
		byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
}

// date is the text of the Date header for one second. It is shared by all responses of
// that second.
type date struct {
	second int64
	text   string
}

func (s *Server) dateHeader() string {
	now := time.Now()
	d := s.date.Load()
	if d == nil || d.second != now.Unix() {
		d = &date{second: now.Unix(), text: now.UTC().Format(http.TimeFormat)}
		s.date.Store(d)
	}
	return d.text
}

// turn is the state of the goroutine that fills and writes a buffer. At most one
// goroutine has the turn: a worker, or a handler that writes its own end. Its lists and
// buffers are reused by the next turn.
type turn struct {
	// taken says that a goroutine has the turn. workerCame says that a worker came meanwhile
	// and went away: the holder queues the connection again.
	taken, workerCame bool
	// worker is the holder of the turn. It is nil if a handler holds the turn.
	worker *pull.Worker
	// batch is the buffer that is being filled. It is nil between turns.
	batch     []byte
	block     bytes.Buffer
	encoder   *hpack.Encoder // to block
	nameCache nameCache
	// chunks is the list that sources append to.
	chunks [][]byte
	// write describes the batch.
	write *pull.Write
	// receiver is one of the receivers whose bytes are in the batch. It is nil if there is
	// none.
	receiver pull.Receiver
	clock    pull.WriteClock
}
