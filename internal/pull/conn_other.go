//go:build !unix

package pull

import (
	"net"
	"sync/atomic"
	"time"
)

// Conn would be a connection that tells when a write has to wait.
type Conn struct {
	net.Conn
	worker atomic.Pointer[Worker]
	waits  atomic.Bool
}

// NewConn returns a connection as it is: its writes may wait at any time.
func NewConn(c net.Conn, _ time.Duration) net.Conn { return c }

func (c *Conn) through(above net.Conn, b []byte) (int, error) { return above.Write(b) }
