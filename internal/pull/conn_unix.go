//go:build unix

package pull

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// maxBehind bounds what waits behind a batch, in bytes.
const maxBehind = recordSize

// errBehind ends a connection whose client causes records and reads none.
var errBehind = errors.New("pull: too many records wait behind others")

// Conn is a TCP connection that tells a worker when a write has to wait for the
// client.
//
// TLS writes by itself too, in the goroutine that reads. Such a write may wait as well,
// and whoever writes next waits for TLS' lock and for that of writing. So waits says
// that a write waits, whoever writes. It is set before worker is loaded, and loaded
// after worker is set: either the write or the worker sees the other.
type Conn struct {
	*net.TCPConn
	raw    syscall.RawConn
	worker atomic.Pointer[Worker]
	waits  atomic.Bool
	stall  stall

	writing struct {
		sync.Mutex
		// try is attempt, bound once. Who writes has the lock, or has set flushes.
		try  func(fd uintptr) bool
		left []byte
		err  error
		// held are bytes that wait for more. It is nil while each write goes out at once.
		held *held
		// flushes says that they are being written, behind then what comes meanwhile: TLS
		// has its write behind it, and to close would wait for an alert's otherwise. It is
		// maxBehind bytes at most: a client that causes more ends its connection.
		flushes bool
		behind  []byte
	}
}

// held has room for the records of a batch.
type held struct {
	n     int
	bytes [BatchSize + BatchSize/16]byte
}

var helds = sync.Pool{New: func() any { return new(held) }}

// NewConn makes a Conn of a connection. It returns one of another kind as it is. A
// connection is closed when something waits to be written and its client has taken
// nothing for as long as stall, or twice that; 0 is never.
func NewConn(c net.Conn, stall time.Duration) net.Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c // it is closed
	}
	x := &Conn{TCPConn: tcp, raw: raw}
	x.stall.timeout = stall
	x.writing.try = x.attempt
	return x
}

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	x := &c.writing
	x.Lock()
	defer x.Unlock()
	if x.flushes {
		if len(x.behind)+len(b) > maxBehind {
			c.reset()
			return 0, errBehind
		}
		x.behind = append(x.behind, b...)
		return len(b), nil
	}
	if h := x.held; h != nil {
		if h.n+len(b) <= len(h.bytes) {
			h.n += copy(h.bytes[h.n:], b)
			return len(b), nil
		}
		if _, err := c.write(h.take()); err != nil {
			return 0, err
		}
	}
	return c.write(b)
}

// take returns the bytes, which are held no longer.
func (h *held) take() []byte {
	b := h.bytes[:h.n]
	h.n = 0
	return b
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
	if e := c.flush(); err == nil && e != nil {
		n, err = 0, e
	}
	return n, err
}

// flush writes what is held, and holds no more.
func (c *Conn) flush() error {
	x := &c.writing
	x.Lock()
	defer x.Unlock()
	h := x.held
	x.held, x.flushes = nil, true
	var err error
	for b := h.take(); err == nil && len(b) > 0; b, x.behind = x.behind, nil {
		_, err = c.writeUnlocked(b)
	}
	x.flushes, x.behind = false, nil
	helds.Put(h)
	return err
}

func (c *Conn) writeUnlocked(b []byte) (int, error) {
	c.writing.Unlock()
	defer c.writing.Lock()
	return c.write(b)
}

func (c *Conn) write(b []byte) (int, error) {
	x := &c.writing
	x.left, x.err = b, nil
	err := c.raw.Write(x.try)
	if c.waits.Load() {
		c.waits.Store(false)
	}
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
			c.stall.moved(n)
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			c.wait()
			return false
		default:
			x.err = err
			return true
		}
	}
	return true
}

// wait says that the write that is under way has to wait for the client.
func (c *Conn) wait() {
	c.waits.Store(true)
	if w := c.worker.Load(); w != nil {
		w.wait()
	}
	c.watchStall()
}

// reset closes the connection and drops what the client has not taken.
func (c *Conn) reset() {
	_ = c.SetLinger(0)
	_ = c.TCPConn.Close()
}
