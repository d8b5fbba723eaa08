package pull

import (
	"net"
	"time"
)

// NewListener makes a listener accept connections that tell workers when a write has
// to wait (NewConn).
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
