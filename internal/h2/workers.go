package h2

import "github.com/millrace/millrace/internal/pull"

// maxIdleWorkers bounds the goroutines that wait for a handler to run.
const maxIdleWorkers = 64

// worker is a goroutine that runs handlers one after another, so that the stack
// which one grew serves the next.
type worker struct{ streams chan *stream }

// run runs a stream's handler in a goroutine.
func (s *Server) run(st *stream) {
	s.mu.Lock()
	var w *worker
	if last := len(s.mu.idle) - 1; last >= 0 {
		w = s.mu.idle[last]
		s.mu.idle[last] = nil
		s.mu.idle = s.mu.idle[:last]
	}
	s.mu.Unlock()
	if w != nil {
		w.streams <- st // has room: the worker waits
		return
	}
	w = &worker{streams: make(chan *stream, 1)}
	go w.work(s, st)
}

func (w *worker) work(s *Server, st *stream) {
	for st != nil {
		st.run()
		if !s.rest(w) {
			return
		}
		st = <-w.streams
	}
}

// run runs the handler. Where the server itself panics, the connection ends.
func (s *stream) run() {
	defer s.conn.recover()
	s.runHandler()
}

// recover is deferred: it ends a connection that is served with a panic, and no other.
func (c *conn) recover() {
	if e := recover(); e != nil {
		c.Abort(pull.NewPanic(e))
	}
}

// Abort implements pull.Task. TLS may wait for the client to hear of it, which a worker
// must not.
func (c *conn) Abort(p *pull.Panic) {
	c.logf("h2: panic serving %v: %v\n%s", c.remote, p.Value, p.Trace)
	go c.close()
}

// rest lets a worker wait for more, unless enough do.
func (s *Server) rest(w *worker) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.idle) >= maxIdleWorkers || len(s.mu.conns) == 0 {
		return false
	}
	s.mu.idle = append(s.mu.idle, w)
	return true
}

// dismissLocked ends the workers that wait.
func (s *Server) dismissLocked() {
	for _, w := range s.mu.idle {
		w.streams <- nil
	}
	s.mu.idle = nil
}
