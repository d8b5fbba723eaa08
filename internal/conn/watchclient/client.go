package watchclient

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrClosed ends streams that a closed client has not begun.
var ErrClosed = errors.New("the client was closed")

// Client is one program: its connections, and the requests that wait for a connection. It
// connects with its first request.
//
// The lock of a client is taken before the lock of a connection.
type Client struct {
	server *Server
	ctx    context.Context
	close  context.CancelCauseFunc
	opened func(change int)

	mu struct {
		sync.Mutex
		conns   []*conn
		waiting []*Stream // the requests that no connection has room for
		dialing bool
		closed  bool
	}
	goroutines sync.WaitGroup
}

// NewClient makes a client without connections. It calls opened with 1 for each
// connection that it opens, and with -1 for each connection that has ended. The caller
// must call Close.
func (s *Server) NewClient(ctx context.Context, opened func(change int)) *Client {
	c := &Client{server: s, opened: opened}
	c.ctx, c.close = context.WithCancelCause(ctx)
	return c
}

// Stream is a request that was started.
type Stream struct {
	request *Request
	handler Handler
	client  *Client

	// conn is nil while the request waits for a connection. The client's lock guards it.
	conn *conn

	// The connection's lock guards the fields below.
	id     uint32
	body   []byte // what is left to send
	window int64  // the bytes that the server still takes
	unread uint32 // received bytes for which the window was not widened yet
	status bool   // the final header has come
	over   bool   // the stream has ended or was cancelled
}

// Start sends a request as soon as a connection has room for it. It does not wait.
func (c *Client) Start(r *Request, h Handler) *Stream {
	s := &Stream{request: r, handler: h, client: c, body: r.Body}
	c.mu.Lock()
	if c.mu.closed {
		c.mu.Unlock()
		go h.End(ErrClosed)
		return s
	}
	c.mu.waiting = append(c.mu.waiting, s)
	c.mu.Unlock()
	c.advance()
	return s
}

// placeLocked reserves a place on a connection. If no connection has a place, it begins to
// open another connection, and returns nil.
func (c *Client) placeLocked() *conn {
	for _, conn := range c.mu.conns {
		if conn.reserve() {
			return conn
		}
	}
	c.dialLocked()
	return nil
}

// dialLocked opens one more connection, unless one is being opened.
func (c *Client) dialLocked() {
	if c.mu.dialing || c.mu.closed {
		return
	}
	c.mu.dialing = true
	c.goroutines.Go(func() {
		raw, err := c.server.dial(c.ctx)
		var next *conn
		if err == nil {
			next, err = newConn(c, raw)
		}
		c.mu.Lock()
		c.mu.dialing = false
		if err == nil && c.mu.closed {
			err = ErrClosed
			_ = raw.Close()
		}
		if err != nil {
			failed := c.mu.waiting
			c.mu.waiting = nil
			c.mu.Unlock()
			for _, s := range failed {
				s.handler.End(err)
			}
			return
		}
		c.mu.conns = append(c.mu.conns, next)
		c.mu.Unlock()
		c.opened(1)
		c.advance()
		next.read() // this goroutine becomes the connection's reader
		c.opened(-1)
	})
}

// advance begins streams that wait, as far as there is room.
func (c *Client) advance() {
	for {
		c.mu.Lock()
		if len(c.mu.waiting) == 0 {
			c.mu.Unlock()
			return
		}
		to := c.placeLocked()
		if to == nil {
			c.mu.Unlock()
			return
		}
		s := c.mu.waiting[0]
		c.mu.waiting = c.mu.waiting[1:]
		s.conn = to
		c.mu.Unlock()
		to.begin(s)
	}
}

// remove forgets a connection that takes no more streams.
func (c *Client) remove(gone *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.conns = slices.DeleteFunc(c.mu.conns, func(other *conn) bool { return other == gone })
}

// Cancel ends a stream. Its handler may be called once more, even after Cancel has returned, by
// a goroutine that had begun before.
func (s *Stream) Cancel() {
	c := s.client
	c.mu.Lock()
	c.mu.waiting = slices.DeleteFunc(c.mu.waiting, func(other *Stream) bool { return other == s })
	on := s.conn
	c.mu.Unlock()
	if on != nil {
		on.cancel(s)
		c.advance()
	}
}

// Close ends all streams with an error, and returns when the readers of all connections have
// ended. It must not be called by a handler.
func (c *Client) Close() {
	c.mu.Lock()
	c.mu.closed = true
	waiting, conns := c.mu.waiting, slices.Clone(c.mu.conns)
	c.mu.waiting = nil
	c.mu.Unlock()
	c.close(ErrClosed)
	for _, conn := range conns {
		_ = conn.raw.Close()
	}
	for _, s := range waiting {
		s.handler.End(ErrClosed)
	}
	c.goroutines.Wait()
}
