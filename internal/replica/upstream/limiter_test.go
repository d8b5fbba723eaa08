package upstream_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/replica/upstream"
)

// TestLimiter: one key takes its share and no more, and those who wait get their turns.
func TestLimiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := upstream.NewLimiter(3, 2)
		take := func(key string, want bool) (release func()) {
			release, ok := l.TryAcquire(key)
			if ok != want {
				t.Errorf("a place of %s: %v, want %v", key, ok, want)
			}
			return release
		}
		first, _ := take("a", true), take("a", true)
		take("a", false)
		second := take("b", true)
		take("c", false) // all places are taken
		second()
		third := take("c", true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Acquire(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a waits for itself: %v", err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if _, err := l.Acquire(t.Context(), "d"); err != nil {
				t.Errorf("d: %v", err)
			}
		}()
		synctest.Wait()
		first()
		<-done
		third()
		take("a", true)
	})
}
