package watch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// connection is one connection, which close closes at once. A transport would keep it open while it
// has streams.
type connection struct {
	rt http.RoundTripper
	mu struct {
		sync.Mutex
		raw    net.Conn // the newest one; nil before the first request
		closed bool
	}
}

// dialConnection returns a connection, which is made with its first request, and made again if the
// server has ended it. window is the number of bytes that the server may send ahead of the reader of
// a stream. socketBuffer is the size of the kernel's receive buffer in bytes. 0 stands for the
// default of either. The caller must call close.
func dialConnection(t *testbed.Target, window, socketBuffer int) (*connection, error) {
	transport, rt, err := t.NewTransport(window)
	if err != nil {
		return nil, err
	}
	l := &connection{rt: rt}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if tcp, ok := raw.(*net.TCPConn); ok && socketBuffer > 0 {
			err = errors.Join(err, tcp.SetReadBuffer(socketBuffer))
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.mu.raw = raw; l.mu.closed && raw != nil {
			raw.Close()
		}
		return raw, err
	}
	return l, nil
}

// close closes the connection with all streams. It may be called again.
func (l *connection) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed = true; l.mu.raw != nil {
		l.mu.raw.Close()
	}
}
