package feedtest

import (
	"testing"

	"github.com/millrace/millrace/internal/feed"
)

// Source is where a feed under test reads. The methods fail the test themselves.
type Source interface {
	// Feed makes a feed that writes to a sink and does not run yet.
	Feed(t *testing.T, sink feed.Sink) feed.Feed
	// Put writes an object and returns the revision. Names are single parts of a path.
	Put(t *testing.T, name, text string) int64
	// Delete deletes an object and returns the revision.
	Delete(t *testing.T, name string) int64
	// PutElsewhere writes what is not the feed's: the revision grows, and there is no event.
	PutElsewhere(t *testing.T) int64
	// Break cuts the connections of feeds and refuses others, until Mend.
	Break(t *testing.T)
	Mend(t *testing.T)
	// Forget has the source forget all history before its newest revision.
	Forget(t *testing.T)
	// Backup keeps the present state. Restore puts it back in place of the one that the
	// source has, as from a backup; the source is broken meanwhile.
	Backup(t *testing.T)
	Restore(t *testing.T)
	// Key and Value are what a sink gets for a write.
	Key(name string) string
	Value(w Write) string
}

// Write is a change of one object.
type Write struct {
	Name, Text string
	Revision   int64
	Deleted    bool
}
