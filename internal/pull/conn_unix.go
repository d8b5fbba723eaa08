//go:build unix

package pull

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// Conn is a TCP connection that tells a worker when a write has to wait for the
// client.
type Conn struct {
	*net.TCPConn
	raw    syscall.RawConn
	worker atomic.Pointer[Worker]

	writing struct {
		sync.Mutex
		// try is attempt, bound once.
		try  func(fd uintptr) bool
		left []byte
		err  error
	}
}

// NewConn makes a Conn of a connection. It returns one of another kind as it is.
func NewConn(c net.Conn) net.Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c // it is closed
	}
	x := &Conn{TCPConn: tcp, raw: raw}
	x.writing.try = x.attempt
	return x
}

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	x := &c.writing
	x.Lock()
	defer x.Unlock()
	x.left, x.err = b, nil
	err := c.raw.Write(x.try)
	if err == nil && x.err != nil {
		err = &net.OpError{Op: "write", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError("write", x.err)}
	}
	n := len(b) - len(x.left)
	x.left = nil
	return n, err
}

// attempt writes what the socket takes. It returns false to be called again when that
// takes more.
func (c *Conn) attempt(fd uintptr) bool {
	x := &c.writing
	for len(x.left) > 0 {
		n, err := syscall.Write(int(fd), x.left)
		switch {
		case err == nil:
			x.left = x.left[n:]
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			if w := c.worker.Load(); w != nil {
				w.wait()
			}
			return false
		default:
			x.err = err
			return true
		}
	}
	return true
}
