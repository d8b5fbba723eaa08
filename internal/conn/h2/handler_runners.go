package h2

import "github.com/millrace/millrace/internal/conn/pull"

// maxIdleRunners bounds the goroutines that wait for a handler to run.
const maxIdleRunners = 64

// handlerRunner is a goroutine that runs handlers one after another. Its stack has grown with
// the first handler. A new goroutine would have to grow its stack again.
type handlerRunner struct{ streams chan *stream }

// run runs a stream's handler in an idle runner, or in a new one.
func (s *Server) run(st *stream) {
	s.mu.Lock()
	var w *handlerRunner
	if last := len(s.mu.idleRunners) - 1; last >= 0 {
		w = s.mu.idleRunners[last]
		s.mu.idleRunners[last] = nil
		s.mu.idleRunners = s.mu.idleRunners[:last]
	}
	s.mu.Unlock()
	if w != nil {
		w.streams <- st // does not block: the channel of an idle runner is empty
		return
	}
	w = &handlerRunner{streams: make(chan *stream, 1)}
	go w.work(s, st)
}

func (w *handlerRunner) work(s *Server, st *stream) {
	for st != nil {
		st.run()
		if !s.park(w) {
			return
		}
		st = <-w.streams
	}
}

// run runs the handler. If the server's own code panics, the connection ends.
func (s *stream) run() {
	defer s.conn.recover()
	s.runHandler()
}

// recover is deferred by goroutines that serve the connection. A panic then ends this connection
// and no other.
func (c *conn) recover() {
	if e := recover(); e != nil {
		c.Abort(pull.NewPanic(e))
	}
}

// Abort implements pull.Task. It closes the connection in another goroutine, because TLS
// may wait until the client reads of the end, and a worker must not.
func (c *conn) Abort(p *pull.Panic) {
	c.logf("h2: panic serving %v: %v\n%s", c.remote, p.Value, p.Trace)
	go c.close()
}

// park adds a runner to the idle ones. It returns false if there are enough, or no
// connections.
func (s *Server) park(w *handlerRunner) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.idleRunners) >= maxIdleRunners || len(s.mu.conns) == 0 {
		return false
	}
	s.mu.idleRunners = append(s.mu.idleRunners, w)
	return true
}

// stopIdleRunnersLocked ends all idle runners.
func (s *Server) stopIdleRunnersLocked() {
	for _, w := range s.mu.idleRunners {
		w.streams <- nil
	}
	s.mu.idleRunners = nil
}
