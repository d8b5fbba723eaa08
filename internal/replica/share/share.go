package share

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
)

// Config configures Reads. All fields are needed.
type Config struct {
	// Next asks the upstream.
	Next http.Handler
	// MayShare reports whether the answer to a request is small enough to be held.
	MayShare func(*http.Request) bool
	// Shared is called with each request that was given the answer to another request, also if
	// its client has left meanwhile.
	Shared func(*http.Request)
}

// Reads is a handler that passes requests on, each alone or together with equal requests. It
// is safe for concurrent use.
type Reads struct {
	cfg Config
	// heldBytes has the bytes of all answers that are held.
	heldBytes atomic.Int64
	mu        struct {
		sync.Mutex
		// byKey has the rounds of each key that the upstream is being asked for.
		byKey map[string]*keyRounds
	}
}

// keyRounds has the rounds of one key: the round under way, and the round that gathers readers
// meanwhile.
type keyRounds struct{ running, gathering *round }

// round is the requests that are answered by one question.
type round struct {
	// begun is closed when the round begins. No reader joins it after that.
	begun chan struct{}
	// readers is the number of readers that have joined and not left. Reads.mu guards it
	// until begun is closed. After that it does not change.
	readers int
	// ask lets the first of several readers ask.
	ask sync.Once
	// answer is nil if the round has one reader, who asks alone. It is set before begun is
	// closed.
	answer *answer
}

// New makes a Reads.
func New(cfg Config) *Reads {
	s := &Reads{cfg: cfg}
	s.mu.byKey = map[string]*keyRounds{}
	return s
}

// ServeHTTP implements http.Handler.
func (s *Reads) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	key, ok := keyOf(req)
	if !ok || !s.cfg.MayShare(req) {
		s.cfg.Next.ServeHTTP(w, req)
		return
	}
	r := s.join(key)
	select {
	case <-r.begun:
	case <-req.Context().Done():
		if s.leave(key, r) {
			return
		}
	}
	if r.answer == nil {
		defer s.finish(key)
		s.cfg.Next.ServeHTTP(w, req)
		return
	}
	asks := false
	r.ask.Do(func() {
		asks = true
		go s.askFor(key, r.answer, req)
	})
	how := r.answer.send(req.Context(), w, asks)
	if value := r.answer.panicked(); asks && value != nil && value != http.ErrAbortHandler {
		panic(value)
	}
	switch how {
	case sent:
		if !asks {
			s.cfg.Shared(req)
		}
	case unfit:
		s.cfg.Next.ServeHTTP(w, req)
	case cut:
		panic(http.ErrAbortHandler)
	}
}

// join adds a reader to the round of a key that gathers. The round begins immediately if none
// of the key is under way.
func (s *Reads) join(key string) *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.mu.byKey[key]
	if l == nil {
		l = &keyRounds{}
		s.mu.byKey[key] = l
	}
	if l.gathering == nil {
		l.gathering = &round{begun: make(chan struct{})}
	}
	r := l.gathering
	r.readers++
	if l.running == nil {
		l.next(s)
	}
	return r
}

// next begins the round that has gathered.
func (l *keyRounds) next(s *Reads) {
	l.running, l.gathering = l.gathering, nil
	if l.running.readers > 1 {
		l.running.answer = newAnswer(&s.heldBytes, l.running.readers)
	}
	close(l.running.begun)
}

// finish ends the round under way, and begins the next one if anybody has come.
func (s *Reads) finish(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.mu.byKey[key]
	if l.gathering == nil || l.gathering.readers == 0 {
		delete(s.mu.byKey, key)
		return
	}
	l.next(s)
}

// leave takes a reader out of a round. It returns false if the round has begun.
func (s *Reads) leave(key string, r *round) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-r.begun:
		return false
	default:
		r.readers--
		return true
	}
}

// askFor asks the question of one request for all readers of an answer. It ends early
// once the last reader has left.
func (s *Reads) askFor(key string, a *answer, req *http.Request) {
	defer s.finish(key)
	ctx, cancel := context.WithCancel(context.WithoutCancel(req.Context()))
	defer cancel()
	defer context.AfterFunc(a.unread, cancel)()
	defer func() { a.end(recover()) }() // a proxy panics when an answer is cut short
	s.cfg.Next.ServeHTTP(a, req.WithContext(ctx))
}
