package watch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// connection wraps a transport of one connection, so that close can cut a connection that still has
// streams. http.Transport closes only idle connections.
type connection struct {
	rt http.RoundTripper
	mu struct {
		sync.Mutex
		raw    net.Conn // of the last dial; nil before the first request
		closed bool
	}
}

// newConnection returns a connection that its first request dials. If the server has ended it, the
// next request dials again. window is the number of bytes that the server may send ahead of the
// reader of a stream. socketBuffer is the size of the kernel's receive buffer in bytes. 0 stands
// for the default. The caller must call close.
func newConnection(t *testbed.Target, window, socketBuffer int) (*connection, error) {
	transport, rt, err := t.NewTransport(window)
	if err != nil {
		return nil, err
	}
	c := &connection{rt: rt}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if tcp, ok := raw.(*net.TCPConn); ok && socketBuffer > 0 {
			err = errors.Join(err, tcp.SetReadBuffer(socketBuffer))
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.mu.raw = raw; c.mu.closed && raw != nil {
			raw.Close() // the transport's first use of raw then fails
		}
		return raw, err
	}
	return c, nil
}

// close closes the connection with all streams. It may be called again.
func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed = true; c.mu.raw != nil {
		c.mu.raw.Close()
	}
}
