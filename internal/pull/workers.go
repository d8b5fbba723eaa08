package pull

import (
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Task is a connection that has something to write now and then.
type Task interface {
	// Write writes some of what there is with Worker.Write: others wait.
	Write(*Worker)
	// Abort ends the connection: Write has panicked. Write must leave no lock locked then,
	// and must not unlock one twice.
	Abort(*Panic)
}

// Worker is a goroutine that writes for connections, one after another: its stack is
// in the processor's caches when that of a goroutine of the connection's own would not
// be. As many run as there are processors, besides those that wait in a write, for
// whom others work meanwhile.
type Worker struct {
	pool *workerPool
	// lastWriteEnd is when the write returned that came just before, if that is known.
	lastWriteEnd time.Time
	// blocked says that the worker does not count. It is set with pool.mu locked.
	blocked atomic.Bool
}

// Do has a worker do a task. It waits for nothing.
func Do(t Task) { processWorkers.do(t) }

// processWorkers are the workers of this process.
var processWorkers = newWorkerPool(runtime.GOMAXPROCS(0))

// workerPool are those of a process.
//
//	resting ──do──► running ──nothing to do──► resting
//	                   ▲  └──a write has to wait: another runs
//	                   └─────and has returned, unless enough run or rest: it ends
type workerPool struct {
	limit int
	mu    struct {
		sync.Mutex
		work sync.Cond
		// tasks are in the order in which they came.
		tasks         Queue[Task]
		running, idle int
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

// startWorkerLocked has one more worker run if there is work and may be one.
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

func (p *workerPool) run() {
	w := &Worker{pool: p}
	for t := p.next(w); t != nil; t = p.next(w) {
		w.do(t)
	}
}

// do does a task. One that panics ends its own connection alone.
func (w *Worker) do(t Task) {
	defer func() {
		if e := recover(); e != nil {
			t.Abort(NewPanic(e))
		}
	}()
	t.Write(w)
}

// next returns nil if enough others run, or rest.
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
		p.mu.work.Wait() // who signals counts it as running
		w.lastWriteEnd = time.Time{}
	}
	p.mu.running--
	return nil
}

// Write writes to a connection, or to TLS above one. Without a worker it only writes.
func (w *Worker) Write(c net.Conn, b []byte) (int, error) {
	conn := connBelow(c)
	if w != nil {
		w.lastWriteEnd = time.Time{}
		defer w.noteUnblocked()
		if conn != nil {
			conn.worker.Store(w)
			defer conn.worker.Store(nil)
			if conn.blocked.Load() {
				w.noteBlocked() // for the lock of another goroutine's write
			}
		} else {
			w.noteBlocked() // perhaps
		}
	}
	if conn == nil {
		return c.Write(b)
	}
	return conn.writeBatch(c, b)
}

// Now is the time when a worker begins with a connection: that is when it was done
// with the one before, so that most writes take two looks at the clock and not three.
func (w *Worker) Now() time.Time {
	if w == nil || w.lastWriteEnd.IsZero() {
		return Now()
	}
	return w.lastWriteEnd
}

// connBelow is the connection below TLS, nil if it does not tell when it waits.
func connBelow(c net.Conn) *Conn {
	if above, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = above.NetConn()
	}
	conn, _ := c.(*Conn)
	return conn
}

// noteBlocked says that the worker is about to wait.
func (w *Worker) noteBlocked() {
	p := w.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if !w.blocked.Swap(true) {
		p.mu.running--
		p.startWorkerLocked()
	}
}

// noteUnblocked says that the worker waits no longer.
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
