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
	// maxCompileWait is how long a compilation waits for its share.
	maxCompileWait = time.Second
)

// limiter is a weighted semaphore. It bounds the bytes of definitions that are written or
// compiled at a time. A definition of 1 MB takes 60 MB of memory while it is decoded,
// validated and stored, or compiled. To work on more of them than there are processors is
// no faster. And a heap that was large once does not give all of its memory back.
type limiter struct {
	size  int64
	bytes *semaphore.Weighted
}

func newLimiter() limiter {
	size := int64(bytesPerProcessor * runtime.GOMAXPROCS(0))
	return limiter{size, semaphore.NewWeighted(size)}
}

// acquire waits, in the order of calls, until a definition of that size may be worked on,
// or until ctx ends. bytes is negative if the size is not known. Definitions larger than
// the limit are worked on alone. Unless it returns an error, the caller must call
// release.
func (l limiter) acquire(ctx context.Context, bytes int64) (release func(), err error) {
	if bytes < 0 {
		bytes = bytesPerProcessor
	}
	bytes = min(bytes, l.size)
	if err := l.bytes.Acquire(ctx, bytes); err != nil {
		return nil, err
	}
	return func() { l.bytes.Release(bytes) }, nil
}

// tryFor calls work when a definition of that size may be worked on, or after
// maxCompileWait in any case. It does not wait longer because its caller may hold a lock
// that other callers need to finish.
func (l limiter) tryFor(bytes int64, work func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), maxCompileWait)
	defer cancel()
	if release, err := l.acquire(ctx, bytes); err == nil {
		defer release()
	}
	return work()
}
