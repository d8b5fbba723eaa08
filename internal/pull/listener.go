package pull

import (
	"net"
	"time"
)

// NewListener makes a listener accept connections that tell workers when a write has
// to wait (NewConn).
func NewListener(l net.Listener, stall time.Duration) net.Listener { return listener{l, stall} }

type listener struct {
	net.Listener
	stall time.Duration
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return NewConn(c, l.stall), nil
}
