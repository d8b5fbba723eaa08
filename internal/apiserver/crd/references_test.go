package crd

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestReferencesDrain closes references while goroutines take and release them.
func TestReferencesDrain(t *testing.T) {
	t.Parallel()
	for range 200 {
		r := newReferences()
		var inUse atomic.Int64
		var users sync.WaitGroup
		for range 4 {
			users.Go(func() {
				for r.acquire() {
					inUse.Add(1)
					inUse.Add(-1)
					r.release()
				}
			})
		}
		r.close()
		<-r.drained
		if n := inUse.Load(); n != 0 {
			t.Fatalf("drained with %d references in use", n)
		}
		if r.acquire() || r.held() || !r.closed() {
			t.Fatal("a reference was handed out after the last one was released")
		}
		users.Wait()
	}
}

// TestReferencesCloseWhileHeld closes references while requests hold some of them.
func TestReferencesCloseWhileHeld(t *testing.T) {
	t.Parallel()
	r := newReferences()
	if r.held() || r.closed() {
		t.Error("new references are held or closed")
	}
	for range 2 {
		if !r.acquire() {
			t.Fatal("no reference before close")
		}
	}
	r.close()
	if !r.held() || !r.closed() || r.acquire() {
		t.Error("after close: not held, not closed, or one more was handed out")
	}
	r.release()
	select {
	case <-r.drained:
		t.Fatal("drained with one reference held")
	default:
	}
	r.release()
	<-r.drained
	if r.held() {
		t.Error("held after the last release")
	}
}
