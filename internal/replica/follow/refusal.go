package follow

import "time"

// Refusal is why a resource is not followed, though --follow or a read has asked for it.
type Refusal string

const (
	// refusedByUpstream: the upstream answers the feed with a client error that lasts
	// (feed.Refusal).
	refusedByUpstream Refusal = "refused"
	// silent: the feed was broken for too long while the upstream answered others. For a custom
	// resource that may also be the feed of definitions.
	silent Refusal = "silent"
	// overFollowBytes: the followed objects would take more memory than --follow-bytes.
	overFollowBytes Refusal = "memory"
)

// Text says why the resource is not followed and, except for silent, what helps. It is "" for no
// refusal.
func (r Refusal) Text() string {
	switch r {
	case refusedByUpstream:
		return "the upstream refuses to list or watch it: allow both to the user of --kubeconfig, or name it in --exclude"
	case silent:
		return "its watch, or the watch of definitions, was broken while the upstream answered others; it is tried again"
	case overFollowBytes:
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

// RefusedResource is a resource that was given up and is not tried again yet.
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
