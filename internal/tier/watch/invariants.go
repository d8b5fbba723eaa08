package watch

import (
	"errors"
	"fmt"
)

// This file checks that the hub, its subscriptions and their index agree. The checks run
// after each dispatch in builds with the tag invariants, and "make invariants" runs the unit
// tests in such a build. An inconsistency is a programming error, so the check panics.

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
		return fmt.Errorf("the newest opaque event ends at %d, after the end %d", h.mu.opaqueEnd, h.mu.end)
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
	n, err := h.mu.index.size()
	if err == nil && n != filed {
		err = fmt.Errorf("the index has %d entries, open subscriptions have %d", n, filed)
	}
	return err
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
	groups := map[string]*subscriptionGroup{"": &idx.unindexed}
	if p.kind != placedUnindexed {
		groups = map[string]*subscriptionGroup{}
		for _, value := range p.values {
			groups[value] = idx.subscriptionsAt(p)[value]
		}
	}
	filed := 0
	for value, group := range groups {
		entries := 1
		if s.Shard != nil {
			entries = len(s.Shard.Ranges())
		}
		if n := group.count(func(o *subscription) bool { return o == s }); n != entries {
			return 0, fmt.Errorf("has %d index entries by %q, not %d", n, value, entries)
		}
		filed += entries
	}
	return filed, nil
}

// check returns an error if the ranges are out of order, or if a search would miss one.
func (x *shardIndex) check() error {
	for i, r := range x.ranges {
		if i > 0 && r.First < x.ranges[i-1].First {
			return fmt.Errorf("range %d of shards begins at %x, the one before it at %x", i, r.First, x.ranges[i-1].First)
		}
	}
	for i, r := range x.ranges {
		found := false
		x.visit(r.Last, func(s *subscription) { found = found || s == r.subscription })
		if !found {
			return fmt.Errorf("range %d of shards is not found by its last hash %x", i, r.Last)
		}
	}
	return nil
}

// count returns the number of entries whose subscription fulfills a condition.
func (g *subscriptionGroup) count(is func(*subscription) bool) (n int) {
	if g == nil {
		return 0
	}
	for _, s := range g.whole {
		if is(s) {
			n++
		}
	}
	if g.shards == nil {
		return n
	}
	for key := range g.shards {
		for _, r := range g.shards[key].ranges {
			if is(r.subscription) {
				n++
			}
		}
	}
	return n
}

// size returns the number of entries in the index, and an error if a search of shards would
// go wrong.
func (idx *subscriptionIndex) size() (n int, err error) {
	count := func(group *subscriptionGroup) {
		n += group.count(func(*subscription) bool { return true })
		if group.shards == nil {
			return
		}
		for key := range group.shards {
			err = errors.Join(err, group.shards[key].check())
		}
	}
	countAll := func(byValue subscriptionsByValue) {
		for _, group := range byValue {
			count(group)
		}
	}
	count(&idx.unindexed)
	countAll(idx.keys)
	countAll(idx.namespaces)
	for _, byValue := range idx.terms {
		countAll(byValue)
	}
	return n, err
}
