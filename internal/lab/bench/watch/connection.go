package watch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// connection is one connection that close cuts. A transport would keep it open as long
// as it has streams.
type connection struct {
	rt http.RoundTripper
	mu struct {
		sync.Mutex
		raw    net.Conn // the last one; nil before the first request
		closed bool
	}
}

// dialConnection returns a connection that is made with its first request, and anew if the
// server has ended it. window is how
// many bytes the server may send ahead of the reader of a stream. socket is the size of
// the kernel's receive buffer. 0 means the default for either.
func dialConnection(t *testbed.Target, window, socket int) (*connection, error) {
	transport, rt, err := t.NewTransport(window)
	if err != nil {
		return nil, err
	}
	l := &connection{rt: rt}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if tcp, ok := raw.(*net.TCPConn); ok && socket > 0 {
			err = errors.Join(err, tcp.SetReadBuffer(socket))
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

func (l *connection) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed = true; l.mu.raw != nil {
		l.mu.raw.Close()
	}
}
