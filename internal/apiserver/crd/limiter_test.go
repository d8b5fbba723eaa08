package crd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimiterAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		acquire := func(bytes int64) (release func()) {
			release, err := l.acquire(t.Context(), bytes)
			if err != nil {
				t.Error(err)
			}
			return release
		}
		first := acquire(10 * l.size) // more than the limit
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := make(chan error, 1)
		go func() {
			_, err := l.acquire(ctx, 1)
			cancelled <- err
		}()
		acquired := make(chan func(), 1)
		go func() { acquired <- acquire(-1) }()
		synctest.Wait()
		if len(cancelled)+len(acquired) > 0 {
			t.Fatal("the limiter admitted a second definition beside one that takes all of it")
		}
		cancel()
		if err := <-cancelled; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		first()
		second := <-acquired
		acquire(l.size - bytesPerProcessor)()
		second()
		acquire(l.size)()
	})
}

func TestLimiterTryFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		release, err := l.acquire(t.Context(), l.size)
		if err != nil {
			t.Fatal(err)
		}
		began, worked := time.Now(), false
		err = l.tryFor(1, func() error {
			worked = true
			return ErrChanged
		})
		if waited := time.Since(began); !worked || !errors.Is(err, ErrChanged) || waited != maxCompileWait {
			t.Errorf("worked: %t, after %s, and got %v", worked, waited, err)
		}
		release()
		began = time.Now()
		for range 2 {
			if err := l.tryFor(l.size, func() error { return nil }); err != nil {
				t.Error(err)
			}
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("waited for %s though nothing was acquired", waited)
		}
	})
}
