package feedtest

import (
	"testing"

	"github.com/millrace/millrace/internal/feed"
)

// Source is where a feed under test reads. Methods that get the test fail it themselves. Names of
// objects are single segments of a path, without a slash.
type Source interface {
	// Feed makes a feed that writes to a sink and does not run yet.
	Feed(t *testing.T, sink feed.Sink) feed.Feed
	// Put writes an object and returns the revision.
	Put(t *testing.T, name, text string) int64
	// Delete deletes an object and returns the revision.
	Delete(t *testing.T, name string) int64
	// PutElsewhere writes something that the feed does not follow. The revision grows, and there
	// is no event.
	PutElsewhere(t *testing.T) int64
	// Break cuts the connections of feeds and refuses new ones, until Mend.
	Break(t *testing.T)
	Mend(t *testing.T)
	// Forget removes all history before the newest revision, as a compaction of etcd does.
	Forget(t *testing.T)
	// Backup keeps the present state.
	Backup(t *testing.T)
	// Restore replaces the source's state by the state that Backup has kept. The source
	// must be broken.
	Restore(t *testing.T)
	// Key and Value are what a sink gets for a write.
	Key(name string) string
	Value(w Write) string
}

// Write is a change of one object. A deletion has no Text.
type Write struct {
	Name, Text string
	Revision   int64
	Deleted    bool
}
