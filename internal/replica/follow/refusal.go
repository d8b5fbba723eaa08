package follow

import "time"

// Refusal is why a resource is not followed, though its reads asked for it.
type Refusal string

const (
	// notPermitted: the upstream refuses the feed.
	notPermitted Refusal = "refused"
	// silent: the feed was broken for too long while the upstream answered others.
	silent Refusal = "silent"
	// noMemory: the objects would take more memory than they may.
	noMemory Refusal = "memory"
)

// Text says what the refusal is, and what helps.
func (r Refusal) Text() string {
	switch r {
	case notPermitted:
		return "the upstream refuses to list or watch it: allow both to the user of --kubeconfig, or name it in --exclude"
	case silent:
		return "its watch was broken while the upstream answered others; it is tried again"
	case noMemory:
		return "the objects that are followed take more memory than they may: name it in --follow, or raise --follow-bytes"
	}
	return ""
}

// refusalUntil is why a resource is not followed, and until when.
type refusalUntil struct {
	why Refusal
	// until is when the resource may be followed again.
	until time.Time
}

// RefusedResource is a resource that is not followed, though --follow or a read has asked for it.
type RefusedResource struct {
	Key Key
	// Named says that the operator has named the resource, or the replica needs it.
	Named bool
	Why   Refusal
}

// RefusedResources returns the resources that are refused now, in no order.
func (s *Resources) RefusedResources() (all []RefusedResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock.Now()
	for _, f := range s.mu.byKey {
		if why := f.refusal(now); why != "" && f.currentFeed() == nil {
			all = append(all, RefusedResource{f.key, f.named, why})
		}
	}
	return all
}
