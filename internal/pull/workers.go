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
	pool *workers
	// ended is when the write returned that came just before, if that is known.
	ended time.Time
	// waits says that the worker does not count. It is set with pool.mu locked.
	waits atomic.Bool
}

// Do has a worker do a task. It waits for nothing.
func Do(t Task) { all.do(t) }

// all are the workers of this process.
var all = newWorkers(runtime.GOMAXPROCS(0))

// workers are those of a process.
//
//	resting ──do──► running ──nothing to do──► resting
//	                   ▲  └──a write has to wait: another runs
//	                   └─────and has returned, unless enough run or rest: it ends
type workers struct {
	limit int
	mu    struct {
		sync.Mutex
		work sync.Cond
		// tasks are in the order in which they came.
		tasks            Queue[Task]
		running, resting int
	}
}

func newWorkers(limit int) *workers {
	p := &workers{limit: limit}
	p.mu.work.L = &p.mu
	return p
}

func (p *workers) do(t Task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.tasks.Push(t)
	p.callLocked()
}

// callLocked has one more worker run if there is work and may be one.
func (p *workers) callLocked() {
	switch {
	case p.mu.tasks.Len() == 0 || p.mu.running >= p.limit:
	case p.mu.resting > 0:
		p.mu.resting--
		p.mu.running++
		p.mu.work.Signal()
	default:
		p.mu.running++
		go p.run()
	}
}

func (p *workers) run() {
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
func (p *workers) next(w *Worker) Task {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.mu.running <= p.limit {
		if p.mu.tasks.Len() > 0 {
			return p.mu.tasks.Pop()
		}
		if p.mu.resting >= p.limit {
			break
		}
		p.mu.running--
		p.mu.resting++
		p.mu.work.Wait() // who signals counts it as running
		w.ended = time.Time{}
	}
	p.mu.running--
	return nil
}

// Write writes to a connection, or to TLS above one. Without a worker it only writes.
func (w *Worker) Write(c net.Conn, b []byte) (int, error) {
	told := teller(c)
	if w != nil {
		w.ended = time.Time{}
		defer w.waited()
		if told != nil {
			told.worker.Store(w)
			defer told.worker.Store(nil)
			if told.waits.Load() {
				w.wait() // for the lock of another goroutine's write
			}
		} else {
			w.wait() // perhaps
		}
	}
	if told == nil {
		return c.Write(b)
	}
	return told.through(c, b)
}

// Moment is the time when a worker begins with a connection: that is when it was done
// with the one before, so that most writes take two looks at the clock and not three.
func (w *Worker) Moment() time.Time {
	if w == nil || w.ended.IsZero() {
		return Moment()
	}
	return w.ended
}

// teller is the connection below TLS, nil if it does not tell when it waits.
func teller(c net.Conn) *Conn {
	if above, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = above.NetConn()
	}
	told, _ := c.(*Conn)
	return told
}

// wait says that the worker is about to wait.
func (w *Worker) wait() {
	p := w.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if !w.waits.Swap(true) {
		p.mu.running--
		p.callLocked()
	}
}

// waited says that the worker waits no longer.
func (w *Worker) waited() {
	if !w.waits.Load() {
		return
	}
	p := w.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	w.waits.Store(false)
	p.mu.running++
}
