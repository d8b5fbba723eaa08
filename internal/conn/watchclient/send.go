package watchclient

import (
	"fmt"
	"slices"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// sendLocked sends the header of a request, and as much of its body as the server takes.
func (n *conn) sendLocked(s *Stream, fields []hpack.HeaderField) error {
	n.mu.headers.Reset()
	for _, f := range fields {
		if err := n.mu.encoder.WriteField(f); err != nil {
			return err
		}
	}
	if n.mu.headers.Len() > maxFrame {
		n.closeLocked() // the encoder's table is ahead of the server's
		return fmt.Errorf("the header of a request has %d bytes, at most %d fit", n.mu.headers.Len(), maxFrame)
	}
	s.id, s.window = n.mu.nextStreamID, n.mu.streamSendWindow
	n.mu.nextStreamID += 2
	n.mu.streams[s.id] = s
	_ = n.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: n.mu.headers.Bytes(), EndStream: len(s.body) == 0, EndHeaders: true})
	n.sendBodyLocked(s)
	if err := n.flushLocked(); err != nil {
		n.closeLocked() // the reader ends all streams
	}
	return nil
}

// sendBodyLocked sends as much of a body as the server takes now.
func (n *conn) sendBodyLocked(s *Stream) {
	for len(s.body) > 0 {
		size := min(int64(len(s.body)), maxFrame, s.window, n.mu.sendWindow)
		if size <= 0 {
			if !slices.Contains(n.mu.blocked, s) {
				n.mu.blocked = append(n.mu.blocked, s)
			}
			return
		}
		_ = n.framer.WriteData(s.id, int(size) == len(s.body), s.body[:size]) // flushing has its error
		s.body, s.window, n.mu.sendWindow = s.body[size:], s.window-size, n.mu.sendWindow-size
	}
}

// unblockLocked goes on with the bodies that waited.
func (n *conn) unblockLocked() {
	blocked := n.mu.blocked
	n.mu.blocked = nil
	for _, s := range blocked {
		if !s.over {
			n.sendBodyLocked(s)
		}
	}
}
