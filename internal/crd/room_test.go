package crd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom()
		enter := func(bytes int64) (leave func()) {
			leave, err := r.enter(t.Context(), bytes)
			if err != nil {
				t.Error(err)
			}
			return leave
		}
		first := enter(10 * r.size) // more than there is: alone
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := r.enter(ctx, 1)
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
		enter(r.size - roomShare)()
		second()
		enter(r.size)()
	})
}
