package crd

import (
	"context"
	"runtime"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// bytesPerProcessor is how many bytes of definitions are worked on at a time for each
	// processor.
	bytesPerProcessor = 1 << 20
	// maxCompileWait is how long compiling waits for others.
	maxCompileWait = time.Second
)

// limiter bounds what is made of definitions at a time: one of a megabyte takes 60 MB while
// it is decoded, checked and stored, or compiled. More of these at once than there are
// processors are no faster, and a heap that was large once costs memory for good.
type limiter struct {
	size  int64
	bytes *semaphore.Weighted
}

func newLimiter() limiter {
	size := int64(bytesPerProcessor * runtime.GOMAXPROCS(0))
	return limiter{size, semaphore.NewWeighted(size)}
}

// acquire waits, in the order of calls, until there is room for a body of so many bytes,
// which is negative if not known, or until ctx ends. leave must be called afterwards.
func (r limiter) acquire(ctx context.Context, bytes int64) (leave func(), err error) {
	if bytes < 0 {
		bytes = bytesPerProcessor
	}
	bytes = min(bytes, r.size)
	if err := r.bytes.Acquire(ctx, bytes); err != nil {
		return nil, err
	}
	return func() { r.bytes.Release(bytes) }, nil
}

// tryFor has some work wait for its turn, but not for long: who waits may hold what
// others wait for.
func (r limiter) tryFor(bytes int64, work func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), maxCompileWait)
	defer cancel()
	if leave, err := r.acquire(ctx, bytes); err == nil {
		defer leave()
	}
	return work()
}
