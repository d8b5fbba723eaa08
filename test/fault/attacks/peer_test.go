package attacks

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/millrace/millrace/test/support/tls13"
)

// errServerLeaves ends a connection on which the server has sent GOAWAY.
var errServerLeaves = errors.New("the server has said that it goes")

// frameSize is the frame size that each server must accept.
const frameSize = 16 << 10

// connOptions are the options of an attacker's connection.
type connOptions struct {
	settings []http2.Setting
	// unread says that nothing is read; slow that little is.
	unread, slow bool
	// keys says that the connection can send TLS key updates.
	keys bool
}

// peer is an attacker's HTTP/2 connection. Frames are gathered in buffer until flush.
type peer struct {
	*slot
	out    io.Writer
	keys   *keyedConn
	buffer bytes.Buffer
	framer *http2.Framer
	block  bytes.Buffer
	hpack  *hpack.Encoder
	id     uint32

	// serverLeaves says that the server has sent GOAWAY or closed the connection.
	serverLeaves atomic.Bool
	mu           struct {
		sync.Mutex
		changed sync.Cond
		// answers counts response heads that have come, bytes those of their bodies.
		answers, bytes int
		ended          bool
	}
	closing func()
}

// connect opens a TCP connection that ends with the attack. small asks for a small
// receive buffer.
func (s *slot) connect(ctx context.Context, small bool) (*net.TCPConn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(attackerAddress)}}
	c, err := d.DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return nil, err
	}
	tcp := c.(*net.TCPConn)
	end, _ := ctx.Deadline()
	if err := tcp.SetDeadline(end); err != nil {
		return nil, err
	}
	if small {
		err = tcp.SetReadBuffer(4 << 10)
	}
	s.stats.Conns.Add(1)
	return tcp, err
}

// dial opens an HTTP/2 connection. With credentials, it also starts a watch.
func (s *slot) dial(ctx context.Context, m connOptions) (*peer, error) {
	tcp, err := s.connect(ctx, m.unread || m.slow)
	if err != nil {
		return nil, err
	}
	var secrets tls13.Secrets
	c := tls.Client(tcp, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, KeyLogWriter: &secrets})
	if err := c.HandshakeContext(ctx); err != nil {
		tcp.Close()
		return nil, err
	}
	p := &peer{slot: s, out: c, id: 1, closing: func() {
		_ = tcp.SetLinger(0)
		tcp.Close()
	}}
	p.mu.changed.L = &p.mu
	p.framer = http2.NewFramer(&p.buffer, c)
	p.framer.SetMaxReadFrameSize(1 << 20)
	p.hpack = hpack.NewEncoder(&p.block)
	if m.keys {
		w, err := tls13.NewWriter(c.ConnectionState(), &secrets)
		if err != nil {
			return nil, err
		}
		p.keys = &keyedConn{tcp, w}
		p.out = p.keys
	}
	switch {
	case m.unread:
	case m.slow:
		go p.readSlowly(ctx, c)
	case m.keys:
		go func() { _, _ = io.Copy(io.Discard, tcp) }()
	default:
		go p.read()
	}
	p.buffer.WriteString(http2.ClientPreface)
	if err := p.framer.WriteSettings(m.settings...); err != nil {
		return nil, err
	}
	if s.Token != "" {
		p.get(listPath + "?watch=1")
	}
	return p, p.flush()
}

// keyedConn encrypts TLS records itself, so that it can send key updates.
type keyedConn struct {
	conn   net.Conn
	writer *tls13.Writer
}

func (k *keyedConn) Write(b []byte) (n int, err error) {
	var records []byte
	for rest := b; len(rest) > 0; {
		part := rest[:min(len(rest), tls13.MaxPlaintext)]
		records = k.writer.AppendData(records, part)
		rest = rest[len(part):]
	}
	if _, err := k.conn.Write(records); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (p *peer) close() { p.closing() }

// read counts answers.
func (p *peer) read() {
	for {
		f, err := p.framer.ReadFrame()
		p.mu.Lock()
		switch f := f.(type) {
		case *http2.HeadersFrame:
			p.mu.answers++
			p.stats.Answers.Add(1)
		case *http2.DataFrame:
			p.mu.bytes += int(f.Length)
		case *http2.GoAwayFrame:
			p.serverLeaves.Store(true)
		}
		p.mu.ended = err != nil
		p.mu.changed.Broadcast()
		p.mu.Unlock()
		if err != nil {
			p.serverLeaves.Store(true)
			return
		}
	}
}

// readSlowly reads a few bytes in each slowPeriod.
func (p *peer) readSlowly(ctx context.Context, c io.Reader) {
	for sleep(ctx, slowPeriod) {
		if _, err := c.Read(make([]byte, 256)); err != nil {
			p.serverLeaves.Store(true)
			return
		}
	}
}

// await waits for a number of answers, or of bytes.
func (p *peer) await(answers, bytes int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.mu.ended && p.mu.answers < answers && p.mu.bytes < bytes {
		if p.serverLeaves.Load() {
			return errServerLeaves
		}
		p.mu.changed.Wait()
	}
	if p.mu.ended {
		return errServerLeaves
	}
	return nil
}

func (p *peer) answered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.answers
}

// flush writes the gathered frames.
func (p *peer) flush() error {
	n, err := p.out.Write(p.buffer.Bytes())
	p.stats.Bytes.Add(int64(n))
	p.buffer.Reset()
	if err == nil && p.serverLeaves.Load() {
		err = errServerLeaves
	}
	return err
}

// fields encodes the header block of a request.
func (p *peer) fields(method, path string, more ...string) []byte {
	p.block.Reset()
	all := append([]string{":method", method, ":scheme", "https", ":authority", "localhost", ":path", path}, more...)
	if p.Token != "" {
		all = append(all, "authorization", "Bearer "+p.Token)
	}
	for i := 0; i < len(all); i += 2 {
		_ = p.hpack.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]}) // to a buffer
	}
	return p.block.Bytes()
}

// headers opens a stream and returns its ID.
func (p *peer) headers(block []byte, flags http2.Flags) uint32 {
	id := p.id
	p.id += 2
	p.stats.Requests.Add(1)
	first := block[:min(len(block), frameSize)]
	if len(first) == len(block) {
		p.raw(http2.FrameHeaders, flags|http2.FlagHeadersEndHeaders, id, first)
		return id
	}
	p.raw(http2.FrameHeaders, flags, id, first)
	for rest := block[len(first):]; len(rest) > 0; {
		part := rest[:min(len(rest), frameSize)]
		var end http2.Flags
		if rest = rest[len(part):]; len(rest) == 0 {
			end = http2.FlagContinuationEndHeaders
		}
		p.raw(http2.FrameContinuation, end, id, part)
	}
	return id
}

// get sends a GET; "" stands for the attacked path.
func (p *peer) get(path string, more ...string) uint32 {
	if path == "" {
		path = p.Path
	}
	return p.headers(p.fields("GET", path, more...), http2.FlagHeadersEndStream)
}

// raw writes a frame with any content.
func (p *peer) raw(kind http2.FrameType, flags http2.Flags, id uint32, payload []byte) {
	_ = p.framer.WriteRawFrame(kind, flags, id, payload) // to a buffer
}

func (p *peer) reset(id uint32) { p.raw(http2.FrameRSTStream, 0, id, []byte{0, 0, 0, 8}) }

// window sends a WINDOW_UPDATE, even one that is not allowed.
func (p *peer) window(id, n uint32) {
	p.raw(http2.FrameWindowUpdate, 0, id, []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}
