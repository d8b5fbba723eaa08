package testbed

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestAtRate(t *testing.T) {
	start, begun := time.Now(), []time.Duration(nil)
	err := AtRate(t.Context(), 20, 200, func(i int) error {
		if i != len(begun) {
			t.Errorf("event %d is number %d", i, len(begun))
		}
		begun = append(begun, time.Since(start))
		return nil
	})
	if err != nil || len(begun) != 20 {
		t.Fatalf("%d events, %v", len(begun), err)
	}
	for i, at := range begun {
		if want := DueAfter(i, 200); at < want {
			t.Errorf("event %d came after %s, due after %s", i, at, want)
		}
	}
	if DueAfter(0, 20) != 0 || DueAfter(30, 20) != 1500*time.Millisecond {
		t.Errorf("got %s, %s", DueAfter(0, 20), DueAfter(30, 20))
	}
}

func TestAtRateCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := time.NewTimer(400 * time.Millisecond)
		start := time.Now()
		_ = AtRate(t.Context(), 40, 100, func(i int) error {
			if i == 0 {
				<-late.C
			}
			return nil
		})
		if took := time.Since(start); took != 400*time.Millisecond {
			t.Errorf("took %s, where the schedule is 390ms and the first event 400ms", took)
		}
	})
}

func TestAtRateEndsWithContext(t *testing.T) {
	broken := errors.New("broken")
	if err := AtRate(t.Context(), 2, 1e6, func(int) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := AtRate(ctx, 2, 0.001, func(int) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
