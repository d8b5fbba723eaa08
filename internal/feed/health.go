package feed

import (
	"sync/atomic"
	"time"
)

// Health says whether a feed follows its source. One goroutine at a time changes it, and any
// may ask. The zero value stands for a feed that has not followed yet.
type Health struct{ state atomic.Pointer[healthState] }

type healthState struct {
	// err is why the feed does not follow. It is nil while the feed follows.
	err error
	// brokenSince is when the feed ceased to follow. It is zero while the feed follows, and
	// before it has followed.
	brokenSince time.Time
}

// SetFollowing records that the feed follows.
func (h *Health) SetFollowing() { h.state.Store(&healthState{}) }

// SetBroken records why the feed does not follow.
func (h *Health) SetBroken(err error) {
	next := &healthState{err: err}
	if last := h.state.Load(); last != nil && last.err == nil {
		next.brokenSince = time.Now()
	} else if last != nil {
		next.brokenSince = last.brokenSince
	}
	h.state.Store(next)
}

// Following reports whether the feed follows.
func (h *Health) Following() bool {
	s := h.state.Load()
	return s != nil && s.err == nil
}

// Err returns why the feed does not follow. It returns nil if the feed follows, or has
// not tried yet.
func (h *Health) Err() error {
	if s := h.state.Load(); s != nil {
		return s.err
	}
	return nil
}

// BrokenSince returns when the feed ceased to follow. It returns the zero time while the
// feed follows, and before it has followed for the first time.
func (h *Health) BrokenSince() time.Time {
	if s := h.state.Load(); s != nil {
		return s.brokenSince
	}
	return time.Time{}
}
