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
		// held are bytes that wait for more. It is nil while each write goes out at once.
		held *held
	}
}

// held has room for the records of a batch.
type held struct {
	n     int
	bytes [BatchSize + BatchSize/16]byte
}

var helds = sync.Pool{New: func() any { return new(held) }}

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
	if h := x.held; h != nil {
		if h.n+len(b) <= len(h.bytes) {
			h.n += copy(h.bytes[h.n:], b)
			return len(b), nil
		}
		if err := c.flushLocked(); err != nil {
			return 0, err
		}
	}
	return c.writeLocked(b)
}

// through writes to TLS above the connection. TLS writes each record by itself; they
// are handed to the system together, which takes the most of its time by the call and
// not by the byte.
func (c *Conn) through(above net.Conn, b []byte) (n int, err error) {
	if len(b) <= recordSize || above == net.Conn(c) {
		return above.Write(b)
	}
	x := &c.writing
	x.Lock()
	x.held = helds.Get().(*held)
	x.Unlock()
	n, err = above.Write(b)
	x.Lock()
	defer x.Unlock()
	if e := c.flushLocked(); err == nil && e != nil {
		n, err = 0, e
	}
	helds.Put(x.held)
	x.held = nil
	return n, err
}

// flushLocked writes what is held.
func (c *Conn) flushLocked() error {
	h := c.writing.held
	n := h.n
	if h.n = 0; n == 0 {
		return nil
	}
	_, err := c.writeLocked(h.bytes[:n])
	return err
}

func (c *Conn) writeLocked(b []byte) (int, error) {
	x := &c.writing
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
