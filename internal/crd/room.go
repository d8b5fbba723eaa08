package crd

import (
	"context"
	"runtime"

	"golang.org/x/sync/semaphore"
)

// roomShare is how many bytes of definitions are written at a time for each processor.
const roomShare = 1 << 20

// room bounds what writes of definitions take at once: one of a megabyte takes 60 MB
// while it is decoded, checked and stored. More of these at a time than there are
// processors are no faster, and a heap that was large once costs memory for good.
type room struct {
	size  int64
	bytes *semaphore.Weighted
}

func newRoom() room {
	size := int64(roomShare * runtime.GOMAXPROCS(0))
	return room{size, semaphore.NewWeighted(size)}
}

// enter waits, in the order of calls, until there is room for a body of so many bytes,
// which is negative if not known, or until ctx ends. leave must be called afterwards.
func (r room) enter(ctx context.Context, bytes int64) (leave func(), err error) {
	if bytes < 0 {
		bytes = roomShare
	}
	bytes = min(bytes, r.size)
	if err := r.bytes.Acquire(ctx, bytes); err != nil {
		return nil, err
	}
	return func() { r.bytes.Release(bytes) }, nil
}
