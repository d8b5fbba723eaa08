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

// maxPending bounds what waits behind a batch, in bytes.
const maxPending = recordSize

// errPendingFull ends a connection whose client causes records and reads none.
var errPendingFull = errors.New("pull: too many records wait behind others")

// Conn is a TCP connection that tells a worker when a write has to wait for the
// client.
//
// TLS writes by itself too, in the goroutine that reads. Such a write may wait as well,
// and whoever writes next waits for TLS' lock and for that of writing. So waits says
// that a write waits, whoever writes. It is set before worker is loaded, and loaded
// after worker is set: either the write or the worker sees the other.
type Conn struct {
	*net.TCPConn
	raw     syscall.RawConn
	worker  atomic.Pointer[Worker]
	blocked atomic.Bool
	stall   stallWatch

	mu struct {
		sync.Mutex
		// try is attempt, bound once. Who writes has the lock, or has set flushes.
		try       func(fd uintptr) bool
		unwritten []byte
		err       error
		// held are bytes that wait for more. It is nil while each write goes out at once.
		records *recordBuffer
		// flushes says that they are being written, behind then what comes meanwhile: TLS
		// has its write behind it, and to close would wait for an alert's otherwise. It is
		// maxBehind bytes at most: a client that causes more ends its connection.
		flushing bool
		pending  []byte
	}
}

// recordBuffer has room for the records of a batch.
type recordBuffer struct {
	n     int
	bytes [BatchSize + BatchSize/16]byte
}

var recordBufferPool = sync.Pool{New: func() any { return new(recordBuffer) }}

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
	conn := &Conn{TCPConn: tcp, raw: raw}
	conn.stall.timeout = stall
	conn.mu.try = conn.attempt
	return conn
}

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	m := &c.mu
	m.Lock()
	defer m.Unlock()
	if m.flushing {
		if len(m.pending)+len(b) > maxPending {
			c.reset()
			return 0, errPendingFull
		}
		m.pending = append(m.pending, b...)
		return len(b), nil
	}
	if h := m.records; h != nil {
		if h.n+len(b) <= len(h.bytes) {
			h.n += copy(h.bytes[h.n:], b)
			return len(b), nil
		}
		if _, err := c.write(h.drain()); err != nil {
			return 0, err
		}
	}
	return c.write(b)
}

// drain returns the bytes, which are held no longer.
func (h *recordBuffer) drain() []byte {
	b := h.bytes[:h.n]
	h.n = 0
	return b
}

// writeBatch writes to TLS above the connection. TLS writes each record by itself; they
// are handed to the system together, which takes the most of its time by the call and
// not by the byte.
func (c *Conn) writeBatch(above net.Conn, b []byte) (n int, err error) {
	if len(b) <= recordSize || above == net.Conn(c) {
		return above.Write(b)
	}
	m := &c.mu
	m.Lock()
	m.records = recordBufferPool.Get().(*recordBuffer)
	m.Unlock()
	n, err = above.Write(b)
	if e := c.flush(); err == nil && e != nil {
		n, err = 0, e
	}
	return n, err
}

// flush writes what is held, and holds no more.
func (c *Conn) flush() error {
	m := &c.mu
	m.Lock()
	defer m.Unlock()
	h := m.records
	m.records, m.flushing = nil, true
	var err error
	for b := h.drain(); err == nil && len(b) > 0; b, m.pending = m.pending, nil {
		_, err = c.writeUnlocked(b)
	}
	m.flushing, m.pending = false, nil
	recordBufferPool.Put(h)
	return err
}

func (c *Conn) writeUnlocked(b []byte) (int, error) {
	c.mu.Unlock()
	defer c.mu.Lock()
	return c.write(b)
}

func (c *Conn) write(b []byte) (int, error) {
	m := &c.mu
	m.unwritten, m.err = b, nil
	err := c.raw.Write(m.try)
	if c.blocked.Load() {
		c.blocked.Store(false)
	}
	if err == nil && m.err != nil {
		err = &net.OpError{Op: "write", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError("write", m.err)}
	}
	n := len(b) - len(m.unwritten)
	m.unwritten = nil
	return n, err
}

// attempt writes what the socket takes. It returns false to be called again when that
// takes more.
func (c *Conn) attempt(fd uintptr) bool {
	m := &c.mu
	for len(m.unwritten) > 0 {
		n, err := syscall.Write(int(fd), m.unwritten)
		switch {
		case err == nil:
			m.unwritten = m.unwritten[n:]
			c.stall.noteProgress(n)
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			c.noteBlocked()
			return false
		default:
			m.err = err
			return true
		}
	}
	return true
}

// noteBlocked says that the write that is under way has to wait for the client.
func (c *Conn) noteBlocked() {
	c.blocked.Store(true)
	if w := c.worker.Load(); w != nil {
		w.noteBlocked()
	}
	c.startStallWatch()
}

// reset closes the connection and drops what the client has not taken.
func (c *Conn) reset() {
	_ = c.SetLinger(0)
	_ = c.TCPConn.Close()
}
