package h2_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// peer is a client that sends exactly the frames that a test writes.
type peer struct {
	t testing.TB
	net.Conn
	*http2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
	decoder *hpack.Decoder
	status  string
}

// dial connects and sends nothing.
func dial(t testing.TB, addr string) *peer {
	t.Helper()
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(testTimeout))
	return newPeer(t, c)
}

func newPeer(t testing.TB, c net.Conn) *peer {
	p := &peer{t: t, Conn: c, Framer: http2.NewFramer(c, c)}
	p.AllowIllegalWrites = true
	p.AllowIllegalReads = true
	p.encoder = hpack.NewEncoder(&p.block)
	p.decoder = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if f.Name == ":status" {
			p.status = f.Value
		}
	})
	return p
}

// greet sends the preface and settings, and acknowledges the server's.
func (p *peer) greet(settings ...http2.Setting) {
	_, _ = io.WriteString(p.Conn, http2.ClientPreface)
	_ = p.WriteSettings(settings...)
	_ = p.WriteSettingsAck()
}

// fields encodes a header block from pairs of name and value.
func (p *peer) fields(pairs ...string) []byte {
	p.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		_ = p.encoder.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return bytes.Clone(p.block.Bytes())
}

// get encodes the header block of a GET, with more fields at its end.
func (p *peer) get(path string, more ...string) []byte {
	return p.fields(append([]string{":method", "GET", ":scheme", "https", ":authority", "h", ":path", path}, more...)...)
}

func (p *peer) headers(id uint32, ends bool, block []byte) {
	_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndStream: ends, EndHeaders: true})
}

func (p *peer) raw(kind http2.FrameType, flags http2.Flags, id uint32, payload string) {
	_ = p.WriteRawFrame(kind, flags, id, []byte(payload))
}

// next reads a frame. It returns nil at the end of the connection.
func (p *peer) next() http2.Frame {
	f, err := p.ReadFrame()
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		p.t.Error("no frame has come in time")
	}
	if err != nil {
		return nil
	}
	if h, ok := f.(*http2.HeadersFrame); ok {
		_, _ = p.decoder.Write(h.HeaderBlockFragment())
	}
	return f
}

// expectGoAway waits for a GOAWAY without an error that names last as the last stream.
func (p *peer) expectGoAway(last uint32) {
	p.t.Helper()
	for {
		switch f := p.next().(type) {
		case nil:
			p.t.Fatal("the connection ended without GOAWAY")
		case *http2.GoAwayFrame:
			if f.ErrCode != http2.ErrCodeNo || f.LastStreamID != last {
				p.t.Errorf("got %v, want that stream %d is the last", f, last)
			}
			return
		}
	}
}

// answerTo returns the server's reaction: resets, a GOAWAY or the end of the connection.
// With a stream it waits for the response, and returns its status too. With 0 it sends a
// PING and returns the reactions that arrive before the PING's answer.
func (p *peer) answerTo(answer uint32) string {
	if answer == 0 {
		_ = p.WritePing(false, [8]byte{'e', 'n', 'd'})
	}
	var said []string
	for {
		switch f := p.next().(type) {
		case nil:
			return strings.Join(append(said, "closed"), ", ")
		case *http2.RSTStreamFrame:
			said = append(said, fmt.Sprintf("reset %d %s", f.StreamID, f.ErrCode))
			if f.StreamID == answer {
				return strings.Join(said, ", ")
			}
		case *http2.GoAwayFrame:
			said = append(said, fmt.Sprintf("goaway %s", f.ErrCode))
			if f.ErrCode != http2.ErrCodeNo {
				return strings.Join(said, ", ")
			}
		case *http2.PingFrame:
			if f.IsAck() && f.Data[0] == 'e' {
				return strings.Join(said, ", ")
			}
		case *http2.HeadersFrame:
			if f.StreamID == answer && f.StreamEnded() {
				return strings.Join(append(said, p.status), ", ")
			}
		case *http2.DataFrame:
			if f.StreamID == answer && f.StreamEnded() {
				return strings.Join(append(said, p.status), ", ")
			}
		}
	}
}

// waitClosed waits until the server closes the connection.
func (p *peer) waitClosed() {
	for p.next() != nil {
		continue
	}
}

// holdHandler answers / when the stream ends, and other paths at once. /read reads the
// body first.
func holdHandler(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/":
		<-r.Context().Done()
	case "/read":
		_, _ = io.Copy(io.Discard, r.Body)
	}
}
