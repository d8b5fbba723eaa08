package pull

import (
	"net"
	"time"
)

// NewListener wraps a listener so that the connections it accepts tell workers when a
// write blocks. stall is the argument of NewConn.
func NewListener(l net.Listener, stall time.Duration) net.Listener { return stallListener{l, stall} }

type stallListener struct {
	net.Listener
	timeout time.Duration
}

func (l stallListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return NewConn(c, l.timeout), nil
}
