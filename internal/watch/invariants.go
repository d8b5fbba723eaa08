package watch

import (
	"fmt"
	"slices"
)

// This file checks what the hub, its subscriptions and their index promise each other.
// The checks run after each dispatch of a build with the tag invariants; the unit tests
// run in such a build too (make invariants). An inconsistency is a programming error, so
// it panics.

// checkInvariantsLocked panics if subscriptions or their index are inconsistent.
func (h *Hub) checkInvariantsLocked() {
	if !invariantsEnabled {
		return
	}
	if err := h.checkLocked(); err != nil {
		panic(fmt.Sprintf("invariants: hub of %s: %v", h.resource, err))
	}
}

func (h *Hub) checkLocked() error {
	if h.mu.opaqueEnd > h.mu.end {
		return fmt.Errorf("the newest opaque event ends at %d, behind the end %d", h.mu.opaqueEnd, h.mu.end)
	}
	filed := 0
	for id, s := range h.mu.subscriptions {
		if s.id != id || s.identity() != id {
			return fmt.Errorf("subscription to %v is stored as %v", s.identity(), id)
		}
		if err := s.check(h); err != nil {
			return fmt.Errorf("subscription to %s: %w", &s.Filter, err)
		}
		n, err := h.mu.index.checkFiled(s)
		if err != nil {
			return fmt.Errorf("subscription to %s: %w", &s.Filter, err)
		}
		filed += n
	}
	if n := h.mu.index.size(); n != filed {
		return fmt.Errorf("the index has %d entries, open subscriptions have %d", n, filed)
	}
	return nil
}

// check returns an error if matches are out of order or cursors are miscounted.
func (s *subscription) check(h *Hub) error {
	if s.lost {
		return fmt.Errorf("is lost and still dispatched to")
	}
	for i, m := range s.matches {
		if i > 0 && m.at <= s.matches[i-1].at {
			return fmt.Errorf("match %d is at %d, the one before it at %d", i, m.at, s.matches[i-1].at)
		}
		if m.at < s.from || m.at >= h.mu.end {
			return fmt.Errorf("match %d is at %d, outside of %d to %d", i, m.at, s.from, h.mu.end)
		}
	}
	if s.cursors < 1 || len(s.waiting) > s.cursors {
		return fmt.Errorf("%d cursors, of which %d wait", s.cursors, len(s.waiting))
	}
	for i, c := range s.waiting {
		switch {
		case c.sub != s || c.waitingIndex != i:
			return fmt.Errorf("waiting cursor %d has the index %d", i, c.waitingIndex)
		case c.next != s.dropped+int64(len(s.matches)):
			return fmt.Errorf("waiting cursor %d has passed %d matches of %d", i, c.next, s.dropped+int64(len(s.matches)))
		}
	}
	return nil
}

// checkFiled returns the number of index entries that a subscription must have, and an
// error if one of them is absent or doubled.
func (idx *subscriptionIndex) checkFiled(s *subscription) (int, error) {
	p := s.placement()
	if p.kind == placedUnindexed {
		if _, ok := idx.unindexed[s]; !ok {
			return 0, fmt.Errorf("is not in the index")
		}
		return 1, nil
	}
	var byValue subscriptionsByValue
	switch p.kind {
	case placedByKey:
		byValue = idx.keys
	case placedByNamespace:
		byValue = idx.namespaces
	case placedByTerm:
		byValue = idx.terms[p.term]
	}
	for _, value := range p.values {
		first := slices.Index(byValue[value], s)
		if first < 0 || slices.Contains(byValue[value][first+1:], s) {
			return 0, fmt.Errorf("is not in the index exactly once by %q", value)
		}
	}
	return len(p.values), nil
}

// size returns the number of entries in the index.
func (idx *subscriptionIndex) size() int {
	n := len(idx.unindexed)
	count := func(byValue subscriptionsByValue) {
		for _, subscriptions := range byValue {
			n += len(subscriptions)
		}
	}
	count(idx.keys)
	count(idx.namespaces)
	for _, byValue := range idx.terms {
		count(byValue)
	}
	return n
}
