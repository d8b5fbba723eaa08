// Package rounds shares questions: one question answers all callers that came before it
// was asked.
//
// A caller that comes while a question is under way cannot take its answer. What the answer is
// about may have changed since the question was asked. So two questions are enough at any
// load, one under way and one that gathers, and no caller waits for more than two.
//
//	caller ──► the round that gathers ──► asked ──► answered
//	               ▲                       │
//	               └── later callers ◄─────┘
package rounds

import (
	"context"
	"sync"
	"time"
)

// Config configures Question. Only Ask is needed.
type Config[T any] struct {
	// Ask asks the question. Its context ends after Timeout, and not with the context of any
	// caller.
	Ask func(context.Context) (T, error)
	// Timeout bounds a question. Zero means that Ask bounds it itself.
	Timeout time.Duration
	// Gather returns for how long a round gathers callers before it is asked, beyond the time
	// that the round before takes. Nil means not at all.
	Gather func() time.Duration
}

// Question is asked for all callers that want its answer: one Round at a time. It is safe for
// concurrent use.
type Question[T any] struct {
	cfg Config[T]
	mu  struct {
		sync.Mutex
		// running says that a goroutine runs run.
		running bool
		// gathering is the round that the goroutine asks next. It is nil if no caller has
		// come for the next round.
		gathering *Round[T]
	}
}

// Round is one question. Its answer may be read once it is done.
type Round[T any] struct {
	done   chan struct{}
	answer T
	err    error
}

// New makes a question, which is not asked before Join.
func New[T any](cfg Config[T]) *Question[T] { return &Question[T]{cfg: cfg} }

// Join returns a round that is not asked before the call. The caller need not wait for its
// answer.
func (q *Question[T]) Join() *Round[T] {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.gathering == nil {
		q.mu.gathering = &Round[T]{done: make(chan struct{})}
	}
	r := q.mu.gathering
	if q.mu.running {
		return r
	}
	if q.mu.running = true; q.cfg.Gather != nil {
		go q.run(nil)
	} else {
		q.mu.gathering = nil
		go q.run(r)
	}
	return r
}

// Answer joins a round, and returns its answer, or the context's error.
func (q *Question[T]) Answer(ctx context.Context) (T, error) { return q.Join().Answer(ctx) }

// Answer waits for the answer of a round.
func (r *Round[T]) Answer(ctx context.Context) (answer T, err error) {
	select {
	case <-r.done:
		return r.answer, r.err
	case <-ctx.Done():
		return answer, ctx.Err()
	}
}

// run asks rounds until no caller waits. r is the first round. If r is nil, the first
// round is the one that gathers.
func (q *Question[T]) run(r *Round[T]) {
	for more := true; more; more = q.goOn() {
		if r == nil {
			r = q.gather()
		}
		r.answer, r.err = q.ask()
		close(r.done)
		r = nil
	}
}

// gather returns the next round once it has gathered, and closes it to further callers.
func (q *Question[T]) gather() *Round[T] {
	if q.cfg.Gather != nil {
		time.Sleep(q.cfg.Gather())
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.mu.gathering
	q.mu.gathering = nil
	return r
}

// goOn reports whether a caller has come since the last round was asked. If none has, run ends.
func (q *Question[T]) goOn() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.running = q.mu.gathering != nil
	return q.mu.running
}

func (q *Question[T]) ask() (T, error) {
	ctx := context.Background()
	if q.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, q.cfg.Timeout)
		defer cancel()
	}
	return q.cfg.Ask(ctx)
}
