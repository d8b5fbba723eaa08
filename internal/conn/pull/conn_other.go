//go:build !unix

package pull

import (
	"net"
	"sync/atomic"
	"time"
)

// Conn is never made on this platform: no write is known to block in advance.
type Conn struct {
	net.Conn
	worker  atomic.Pointer[Worker]
	blocked atomic.Bool
}

// NewConn returns the connection unchanged. A worker then assumes that each of its writes
// may block, and lets another worker run meanwhile.
func NewConn(c net.Conn, _ time.Duration) net.Conn { return c }

func (c *Conn) writeBatch(above net.Conn, b []byte) (int, error) { return above.Write(b) }
