package pull

import (
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Task is a connection that writes from time to time.
type Task interface {
	// Write writes a part of what the connection has to send, with Worker.Write. It
	// should then call Do again rather than go on: other connections wait. If the task is
	// queued while Write runs, another worker may call Write at the same time.
	Write(*Worker)
	// Abort ends the connection after Write has panicked. Write must have released its
	// locks by then, each of them once.
	Abort(*Panic)
}

// Worker is a goroutine that writes for connections, one after another. Its stack stays
// in the processor's caches, where the stack of a goroutine per connection would not be.
//
// At most as many workers run as there are processors. A worker whose write blocks is not
// counted, and another worker runs in its place.
type Worker struct {
	pool *workerPool
	// lastWriteEnd is when the previous write of this worker returned. It is zero if
	// unknown.
	lastWriteEnd time.Time
	// blocked says that this worker is not counted as running. It is set with pool.mu
	// held.
	blocked atomic.Bool
}

// Do queues a task for the workers. It never blocks.
func Do(t Task) { processWorkers.do(t) }

// processWorkers is the only pool: the number of processors is the process's.
var processWorkers = newWorkerPool(runtime.GOMAXPROCS(0))

// workerPool is a set of workers.
//
//	idle ──do──► running ──no task left──► idle
//	                │ ▲
//	                ▼ │ the write returns
//	              blocked            (not counted: another worker runs meanwhile)
//
// A worker ends if limit others are idle, or more than limit run after its write has
// returned.
type workerPool struct {
	// limit is the number of workers that run at the same time, and also the number of workers
	// that stay idle.
	limit int
	mu    struct {
		sync.Mutex
		work sync.Cond
		// tasks are in the order in which they were queued.
		tasks Queue[Task]
		// running is the number of workers that are neither idle nor blocked.
		running int
		// idle is the number of workers that wait for a task.
		idle int
	}
}

func newWorkerPool(limit int) *workerPool {
	p := &workerPool{limit: limit}
	p.mu.work.L = &p.mu
	return p
}

func (p *workerPool) do(t Task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.tasks.Push(t)
	p.startWorkerLocked()
}

// startWorkerLocked wakes or starts one worker if there is a task and fewer than limit
// run.
func (p *workerPool) startWorkerLocked() {
	switch {
	case p.mu.tasks.Len() == 0 || p.mu.running >= p.limit:
	case p.mu.idle > 0:
		p.mu.idle--
		p.mu.running++
		p.mu.work.Signal()
	default:
		p.mu.running++
		go p.run()
	}
}

// run is the goroutine of one worker.
func (p *workerPool) run() {
	w := &Worker{pool: p}
	for t := p.next(w); t != nil; t = p.next(w) {
		w.do(t)
	}
}

// do executes a task. If that panics, only its own connection ends.
func (w *Worker) do(t Task) {
	defer func() {
		if e := recover(); e != nil {
			t.Abort(NewPanic(e))
		}
	}()
	t.Write(w)
}

// next waits for a task. It returns nil if the worker is not needed any more.
func (p *workerPool) next(w *Worker) Task {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.mu.running <= p.limit {
		if p.mu.tasks.Len() > 0 {
			return p.mu.tasks.Pop()
		}
		if p.mu.idle >= p.limit {
			break
		}
		p.mu.running--
		p.mu.idle++
		p.mu.work.Wait() // startWorkerLocked counts it as running again
		w.lastWriteEnd = time.Time{}
	}
	p.mu.running--
	return nil
}

// Write writes to a connection, or to TLS above one. While the write blocks, another
// worker runs. w is nil if the caller is no worker.
func (w *Worker) Write(c net.Conn, b []byte) (int, error) {
	conn := connBelow(c)
	if w != nil {
		w.lastWriteEnd = time.Time{}
		defer w.noteUnblocked()
		if conn != nil {
			conn.worker.Store(w)
			defer conn.worker.Store(nil)
			if conn.blocked.Load() {
				w.noteBlocked() // this write will wait for the lock of another write, which blocks
			}
		} else {
			w.noteBlocked() // any write of such a connection may block
		}
	}
	if conn == nil {
		return c.Write(b)
	}
	return conn.writeBatch(c, b)
}

// Now returns the time at which the worker begins with a connection: the end of its previous
// write if known, and else the present time. So most writes read the clock twice and not three
// times.
func (w *Worker) Now() time.Time {
	if w == nil || w.lastWriteEnd.IsZero() {
		return Now()
	}
	return w.lastWriteEnd
}

// connBelow returns the Conn below TLS, or c itself. It returns nil if c is of another
// kind.
func connBelow(c net.Conn) *Conn {
	if above, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = above.NetConn()
	}
	conn, _ := c.(*Conn)
	return conn
}

// noteBlocked stops counting the worker as running.
func (w *Worker) noteBlocked() {
	p := w.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if !w.blocked.Swap(true) {
		p.mu.running--
		p.startWorkerLocked()
	}
}

// noteUnblocked counts the worker as running again after its write.
func (w *Worker) noteUnblocked() {
	if !w.blocked.Load() {
		return
	}
	p := w.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	w.blocked.Store(false)
	p.mu.running++
}
