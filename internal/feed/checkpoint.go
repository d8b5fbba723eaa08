package feed

import (
	"context"
	"errors"
)

// Checkpoint is what a sink held at one revision, kept from an earlier run. A feed loads it
// in the place of its source's objects, and follows from its revision on.
type Checkpoint interface {
	// Revision is the one at which the source had the objects.
	Revision() int64
	// Witness is the newest of the objects. It is nil if there are none.
	Witness() *Object
	// MissingPrefixes are the beginnings of keys that are not in it.
	MissingPrefixes() []string
	// Load adds the objects to a loader, and does not end the load. An error means that
	// the loader must not be ended.
	Load(ctx context.Context, to Loader) error
	// Close releases the checkpoint.
	Close() error
}

// ErrUnusable says that a checkpoint cannot take the place of a load. The error that wraps
// it says why.
var ErrUnusable = errors.New("checkpoint cannot be used")
