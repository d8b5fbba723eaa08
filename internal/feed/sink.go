package feed

import (
	"context"
	"time"
)

// Sink receives the objects and events that a feed reads. One goroutine at a time calls its
// methods.
type Sink interface {
	// BeginLoad begins a load, whose objects replace all that the sink holds. A load without
	// End was given up, and leaves the sink as it was.
	BeginLoad() Loader
	// Received says when the response with the next Apply's events arrived.
	Received(at time.Time)
	// Apply takes the events of one response, in the order of their revisions. All events
	// of a revision are in one response. The slice is the feed's: a sink does not keep it.
	Apply(ctx context.Context, events []Object)
	// Progressed says that all events up to revision have been applied.
	Progressed(revision int64)
}

// Loader receives the objects of one revision.
type Loader interface {
	// Expect says, before End, that the load is of an old revision: the events up to
	// newest follow immediately. A sink that serves no reads yet must not begin before these
	// events are applied.
	Expect(newest int64)
	// Unchanged says, before End, that no object below a prefix has changed after a
	// revision, up to the revision of the load. It is known of prefixes of a checkpoint.
	Unchanged(prefix string, since int64)
	// Add takes a page of objects. Pages and their objects are in key order. The slice is
	// the feed's: a loader does not keep it.
	Add(ctx context.Context, page []Object)
	// End says that the load is complete, and at which revision it is. If that is lower than
	// what was applied, the source has another history: nothing that the sink knows of
	// revisions holds any longer.
	End(ctx context.Context, revision int64)
}
