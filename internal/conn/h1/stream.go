package h1

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/conn/pull"
)

const (
	// askBytes is how many bytes a source is asked for in one call.
	askBytes = 16 << 10
	// maxChunk is the payload of a chunk which, with its size line and line ends, fills a
	// batch.
	maxChunk = pull.BatchSize - 16
	// maxIdleChunks is the capacity of the chunk list that a stream without chunks
	// keeps.
	maxIdleChunks = 4
)

type connKey struct{}

// Configure makes a server attach connections to the contexts of requests, where New
// finds them. It must be called before the server serves.
func Configure(hs *http.Server) {
	before := hs.ConnContext
	hs.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if before != nil {
			ctx = before(ctx, c)
		}
		return context.WithValue(ctx, connKey{}, c)
	}
}

// New makes a Puller for the response to a request. It returns false if the request is
// not HTTP/1, or its server was not configured. w must be net/http's own writer.
func New(w http.ResponseWriter, req *http.Request) (pull.Puller, bool) {
	c, ok := req.Context().Value(connKey{}).(net.Conn)
	if !ok || req.ProtoMajor != 1 {
		return nil, false
	}
	s := &stream{w: w, nc: c, chunked: req.ProtoAtLeast(1, 1)}
	s.mu.changed.L = &s.mu
	return s, true
}

// stream is the body of a response. Its lock is not held while the source is asked or
// bytes are written.
type stream struct {
	w       http.ResponseWriter
	nc      net.Conn
	chunked bool // false in HTTP/1.0, where the connection's end is the body's end
	// wakePending says that the stream is a task in the workers' queue.
	wakePending atomic.Bool

	mu struct {
		sync.Mutex
		// changed wakes the handler in Pull: the source or the turn has ended.
		changed sync.Cond
		// source is nil except during Pull.
		source   pull.Source
		receiver pull.Receiver
		// taken says that a worker has the turn. workerCame says that another worker came
		// meanwhile: the turn's holder queues the stream again.
		taken, workerCame bool
		// unsent are bytes of the source that were not written yet.
		unsent [][]byte
		// sourceReady says that the source may have more.
		sourceReady bool
		// sourceEnded says that the source has returned io.EOF. leaving says that Pull is
		// about to return.
		sourceEnded, leaving bool
		// err is the reason why nothing more can be sent.
		err   error
		clock pull.WriteClock
	}
}

// Wake implements pull.Puller.
func (s *stream) Wake() {
	if !s.wakePending.Swap(true) {
		pull.Do(s)
	}
}

// Pull implements pull.Puller.
func (s *stream) Pull(ctx context.Context, source pull.Source) error {
	if err := http.NewResponseController(s.w).Flush(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, s.leave)
	defer stop()
	m := &s.mu
	m.Lock()
	defer m.Unlock()
	m.source, m.sourceEnded, m.leaving = source, false, false
	m.receiver, _ = source.(pull.Receiver)
	s.Wake()
	for !m.leaving && m.err == nil && (!m.sourceEnded || len(m.unsent) > 0) {
		m.changed.Wait()
	}
	// Wait for the turn's end: the handler may write once Pull has returned.
	for m.leaving = true; m.taken; {
		m.changed.Wait()
	}
	m.source, m.receiver = nil, nil
	if m.err != nil {
		s.unlockAndClose()
	}
	if p, ok := m.err.(*pull.Panic); ok {
		panic(p) // net/http logs it and ends this connection only
	}
	switch {
	case m.err != nil:
		return m.err
	case m.sourceEnded && len(m.unsent) == 0:
		return nil
	}
	return ctx.Err()
}

// unlockAndClose closes the connection, since HTTP/1 has no other way to say that a body
// is incomplete. The lock is released meanwhile: TLS may block in Close until the client
// reads, and a worker must not wait for the lock that long.
func (s *stream) unlockAndClose() {
	s.mu.Unlock()
	defer s.mu.Lock()
	_ = s.nc.Close()
}

func (s *stream) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.leaving = true
	s.mu.changed.Broadcast()
}

// Write implements pull.Task. It writes one chunk.
func (s *stream) Write(w *pull.Worker) {
	s.wakePending.Store(false)
	m := &s.mu
	m.Lock()
	defer m.Unlock()
	switch {
	case m.taken:
		m.workerCame = true
		return
	case m.source == nil || m.leaving || m.err != nil || m.sourceEnded && len(m.unsent) == 0:
		return
	}
	m.taken = true
	b := pull.NewBatch()
	b.Write.FillBegan = w.Now()
	if n := s.fillLocked(b); n > 0 && m.err == nil {
		s.writeBatchLocked(w, b, n)
	}
	b.Release()
	m.taken = false
	switch {
	case m.sourceEnded && len(m.unsent) == 0 || m.leaving || m.err != nil:
		m.changed.Broadcast()
	case m.workerCame || m.sourceReady || len(m.unsent) > 0:
		s.Wake() // after the other connections
	default:
		m.clock.SetIdle()
	}
	m.workerCame = false
}

// Abort implements pull.Task. Pull then panics in the handler's goroutine, which net/http
// logs.
func (s *stream) Abort(p *pull.Panic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.taken = false
	s.mu.err = p
	s.mu.changed.Broadcast()
}

// fillLocked fills the buffer with a chunk. It returns the number of the source's bytes
// in it.
func (s *stream) fillLocked(b *pull.Batch) (n int) {
	m := &s.mu
	have := totalLength(m.unsent)
	for have < maxChunk && !m.sourceEnded && m.err == nil {
		before := have
		s.askLocked(min(askBytes, maxChunk-have))
		if have = totalLength(m.unsent); have == before {
			break
		}
	}
	if n = min(have, maxChunk); n == 0 {
		m.unsent = nil
		return 0
	}
	if s.chunked {
		b.Bytes = append(strconv.AppendInt(b.Bytes, int64(n), 16), "\r\n"...)
	}
	s.moveLocked(b, n)
	if s.chunked {
		b.Bytes = append(b.Bytes, "\r\n"...)
	}
	return n
}

// moveLocked moves n bytes from unsent to the buffer.
func (s *stream) moveLocked(b *pull.Batch, n int) {
	m := &s.mu
	done := 0
	for n > 0 {
		chunk := m.unsent[done]
		part := chunk[:min(n, len(chunk))]
		b.Bytes = append(b.Bytes, part...)
		n -= len(part)
		if m.unsent[done] = chunk[len(part):]; len(m.unsent[done]) == 0 {
			done++
		}
	}
	rest := copy(m.unsent, m.unsent[done:])
	clear(m.unsent[rest:])
	if m.unsent = m.unsent[:rest]; rest == 0 && cap(m.unsent) > maxIdleChunks {
		m.unsent = nil
	}
}

func totalLength(chunks [][]byte) (n int) {
	for _, s := range chunks {
		n += len(s)
	}
	return n
}

// askLocked calls the source. The lock is released meanwhile.
func (s *stream) askLocked(room int) {
	m := &s.mu
	source, chunks := m.source, m.unsent
	m.Unlock()
	chunks, more, err := pull.Ask(source, chunks, room)
	m.Lock()
	m.unsent, m.sourceReady = chunks, more
	switch {
	case errors.Is(err, io.EOF):
		m.sourceEnded, m.sourceReady = true, false
	case err != nil:
		m.err = err
	}
}

// writeBatchLocked writes a buffer with n bytes of the source and tells the receiver.
func (s *stream) writeBatchLocked(worker *pull.Worker, b *pull.Batch, n int) {
	m, w := &s.mu, &b.Write
	receiver := m.receiver
	w.Number = m.clock.NextNumber()
	if receiver != nil {
		receiver.Placed(w, n, nil)
	}
	m.clock.Begin(w)
	if err := s.unlockAndDeliver(worker, b, receiver); err != nil {
		m.err = err
		return
	}
	m.clock.Complete(w)
}

// unlockAndDeliver releases the lock, writes a buffer, and takes the lock again, also when
// it panics.
func (s *stream) unlockAndDeliver(worker *pull.Worker, b *pull.Batch, receiver pull.Receiver) error {
	s.mu.Unlock()
	defer s.mu.Lock()
	_, err := worker.Write(s.nc, b.Bytes)
	s.mu.clock.End(&b.Write, worker)
	if err == nil && receiver != nil {
		receiver.Written(&b.Write)
	}
	return err
}

// Waits implements pull.Puller. HTTP/1.1 has no flow-control windows, so windowClosed is
// zero.
func (s *stream) Waits() (windowClosed, writeBegan time.Time) {
	return time.Time{}, s.mu.clock.WritingSince()
}

// WithLock implements pull.Puller.
func (s *stream) WithLock(use func(returned uint64)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	use(s.mu.clock.ReturnedWrites())
}
