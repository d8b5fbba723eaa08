package rounds_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/tier/rounds"
)

// counter is a question whose answer is how often it was asked. Each answer takes a second.
type counter struct {
	mu    sync.Mutex
	asked int
}

func (c *counter) ask(context.Context) (int, error) {
	c.mu.Lock()
	c.asked++
	n := c.asked
	c.mu.Unlock()
	<-time.After(time.Second)
	return n, nil
}

// TestLateCallersAreAskedForAnew: who comes while a question is under way shares the next one
// with all others who do.
func TestLateCallersAreAskedForAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{}
		q := rounds.New(rounds.Config[int]{Ask: c.ask})
		var callers sync.WaitGroup
		call := func(want int) {
			callers.Go(func() {
				if got, err := q.Answer(t.Context()); got != want || err != nil {
					t.Errorf("got answer %d, %v, want %d", got, err, want)
				}
			})
		}
		call(1)
		synctest.Wait()
		for range 100 {
			call(2)
		}
		callers.Wait()
		call(3)
		callers.Wait()
		if c.asked != 3 {
			t.Errorf("asked %d times, want 3", c.asked)
		}
	})
}

func TestRoundsGather(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{}
		q := rounds.New(rounds.Config[int]{Ask: c.ask, Gather: func() time.Duration { return 10 * time.Second }})
		var callers sync.WaitGroup
		for range 100 {
			<-time.After(90 * time.Millisecond)
			callers.Go(func() {
				if got, err := q.Answer(t.Context()); got != 1 || err != nil {
					t.Errorf("got answer %d, %v, want the first one", got, err)
				}
			})
		}
		callers.Wait()
	})
}

// TestCallersLeave: a caller's context ends its own wait, and not the question.
func TestCallersLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := rounds.New(rounds.Config[error]{Timeout: time.Minute, Ask: func(ctx context.Context) (error, error) {
			<-ctx.Done()
			return ctx.Err(), nil
		}})
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := q.Join()
		if _, err := r.Answer(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller that leaves got %v", err)
		}
		if ended, err := r.Answer(t.Context()); !errors.Is(ended, context.DeadlineExceeded) || err != nil {
			t.Errorf("the question ended with %v, %v, want the end of its own time", ended, err)
		}
	})
}
