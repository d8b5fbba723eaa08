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

// maxPending bounds Conn.mu.pending, in bytes.
const maxPending = recordSize

// errPendingFull is the error of a write that would exceed maxPending: the client
// provokes TLS records (such as key updates) and reads none.
var errPendingFull = errors.New("pull: too many records wait for others")

// Conn is a TCP connection that tells a worker when its write blocks because the client
// does not read. It also gathers the records that TLS makes of one batch, and writes them
// with one system call.
//
// TLS sits above a Conn and writes on its own account as well: its alerts and key updates
// come from the goroutine that reads. Such a write may block too. The next write then waits
// for the locks of TLS and Conn. A worker must not be counted as running while it waits.
//
// So blocked says that some write waits for the client, no matter which goroutine makes
// it. A write that blocks sets blocked and then loads worker. A worker sets worker and
// then loads blocked. One of the two therefore sees the other.
type Conn struct {
	*net.TCPConn
	raw     syscall.RawConn
	worker  atomic.Pointer[Worker]
	blocked atomic.Bool
	stall   stallWatch

	mu struct {
		sync.Mutex
		// try is the method attempt as a value, bound once so that a write allocates
		// nothing. unwritten and err are its argument and its result. They belong to the
		// goroutine that writes: it holds the lock, or it has set flushing.
		try       func(fd uintptr) bool
		unwritten []byte
		err       error
		// records gathers the records of a batch. It is nil outside writeBatch: each
		// write then goes to the socket immediately.
		records *recordBuffer
		// flushing is set while records are written to the socket without the lock.
		// Writes that come meanwhile are appended to pending, and return immediately.
		// Otherwise a client that does not read would block the alert that TLS sends in
		// Close, and Close with it. pending holds maxPending bytes at most; a client that
		// provokes more is disconnected.
		flushing bool
		pending  []byte
	}
}

// recordBuffer has room for all TLS records of one batch: the payload, and a sixteenth
// more for headers, tags and a last short record.
type recordBuffer struct {
	n     int
	bytes [BatchSize + BatchSize/16]byte
}

// recordBufferPool holds unused record buffers of the whole process.
var recordBufferPool = sync.Pool{New: func() any { return new(recordBuffer) }}

// NewConn wraps a TCP connection in a Conn. Connections of other kinds are returned
// unchanged.
//
// A connection is reset if bytes wait to be written and the client takes none for the
// time stall. This is checked once in that time, so it may take up to twice as long. A
// stall of 0 disables the check.
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
		if _, err := c.writeSocket(h.drain()); err != nil {
			return 0, err
		}
	}
	return c.writeSocket(b)
}

// drain returns the gathered bytes and empties the buffer. The bytes are valid until the
// next write to it.
func (r *recordBuffer) drain() []byte {
	b := r.bytes[:r.n]
	r.n = 0
	return b
}

// writeBatch writes b to above, the TLS connection over c (or c itself). TLS writes each
// record separately. These writes are gathered and handed to the system together: a
// system call costs much more than the bytes that it copies.
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

// flush ends the gathering of records and writes them, then everything that came
// meanwhile.
func (c *Conn) flush() error {
	m := &c.mu
	m.Lock()
	defer m.Unlock()
	h := m.records
	m.records, m.flushing = nil, true
	var err error
	for b := h.drain(); err == nil && len(b) > 0; b, m.pending = m.pending, nil {
		_, err = c.unlockAndWrite(b)
	}
	m.flushing, m.pending = false, nil
	recordBufferPool.Put(h)
	return err
}

func (c *Conn) unlockAndWrite(b []byte) (int, error) {
	c.mu.Unlock()
	defer c.mu.Lock()
	return c.writeSocket(b)
}

// writeSocket writes b to the socket and waits until it has taken all. The caller holds the
// lock, or has set flushing.
func (c *Conn) writeSocket(b []byte) (int, error) {
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

// attempt writes as much as the socket takes. It returns false if the socket is full: the
// runtime then waits until it is writable, and calls again.
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

// noteBlocked records that the write in progress waits for the client.
func (c *Conn) noteBlocked() {
	c.blocked.Store(true)
	if w := c.worker.Load(); w != nil {
		w.noteBlocked()
	}
	c.startStallWatch()
}

// reset closes the connection and discards the bytes that the client has not taken.
func (c *Conn) reset() {
	_ = c.SetLinger(0)
	_ = c.TCPConn.Close()
}
