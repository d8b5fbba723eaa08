package upstream

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Limiter bounds how much goes on at a time, in all and for each key. A caller whose key has
// used up its share gets no slot, while callers with other keys do. It is safe for concurrent
// use.
type Limiter struct {
	total *semaphore.Weighted
	// perKey is how many slots one key may take.
	perKey int64
	mu     struct {
		sync.Mutex
		shares map[string]*share
	}
}

// share bounds the slots of one key. It is forgotten when nobody uses it.
type share struct {
	semaphore *semaphore.Weighted
	// users is how many callers hold a slot or wait for one. Limiter.mu guards it.
	users int
}

// NewLimiter makes a Limiter of total slots, of which one key may take perKey.
func NewLimiter(total, perKey int64) *Limiter {
	l := &Limiter{total: semaphore.NewWeighted(total), perKey: perKey}
	l.mu.shares = map[string]*share{}
	return l
}

// Acquire waits for a slot, and returns the function that frees it, to be called once. It fails
// with the context's error.
func (l *Limiter) Acquire(ctx context.Context, key string) (release func(), err error) {
	s := l.enter(key)
	if err := s.semaphore.Acquire(ctx, 1); err != nil {
		l.leave(key, s)
		return nil, err
	}
	if err := l.total.Acquire(ctx, 1); err != nil {
		s.semaphore.Release(1)
		l.leave(key, s)
		return nil, err
	}
	return func() { l.release(key, s) }, nil
}

// TryAcquire is Acquire without waiting.
func (l *Limiter) TryAcquire(key string) (release func(), ok bool) {
	s := l.enter(key)
	if !s.semaphore.TryAcquire(1) {
		l.leave(key, s)
		return nil, false
	}
	if !l.total.TryAcquire(1) {
		s.semaphore.Release(1)
		l.leave(key, s)
		return nil, false
	}
	return func() { l.release(key, s) }, true
}

func (l *Limiter) release(key string, s *share) {
	l.total.Release(1)
	s.semaphore.Release(1)
	l.leave(key, s)
}

func (l *Limiter) enter(key string) *share {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.mu.shares[key]
	if s == nil {
		s = &share{semaphore: semaphore.NewWeighted(l.perKey)}
		l.mu.shares[key] = s
	}
	s.users++
	return s
}

func (l *Limiter) leave(key string, s *share) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(l.mu.shares, key)
	}
}
