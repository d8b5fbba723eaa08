package crd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLimiter()
		enter := func(bytes int64) (leave func()) {
			leave, err := r.acquire(t.Context(), bytes)
			if err != nil {
				t.Error(err)
			}
			return leave
		}
		first := enter(10 * r.size) // more than there is: alone
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := r.acquire(ctx, 1)
			gone <- err
		}()
		entered := make(chan func(), 1)
		go func() { entered <- enter(-1) }()
		synctest.Wait()
		if len(gone)+len(entered) > 0 {
			t.Fatal("there was room beside what takes all")
		}
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that it was cancelled", err)
		}
		first()
		second := <-entered
		enter(r.size - bytesPerProcessor)()
		second()
		enter(r.size)()
	})
}

func TestRoomIsWaitedForBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLimiter()
		leave, err := r.acquire(t.Context(), r.size)
		if err != nil {
			t.Fatal(err)
		}
		began, worked := time.Now(), false
		err = r.tryFor(1, func() error {
			worked = true
			return errChanged
		})
		if waited := time.Since(began); !worked || !errors.Is(err, errChanged) || waited != maxCompileWait {
			t.Errorf("worked: %t, after %s, and got %v", worked, waited, err)
		}
		leave()
		began = time.Now()
		for range 2 {
			if err := r.tryFor(r.size, func() error { return nil }); err != nil {
				t.Error(err)
			}
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("waited for %s where there was room", waited)
		}
	})
}
