package etcdfeed

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errStreamEnded says that a stream ended without the chunk that says it is complete.
var errStreamEnded = errors.New("etcd ended the stream early")

// readStream sends all objects as pages, out of one stream. It returns false, and has
// sent nothing, if etcd has no streams: then pages have to be requested. That is so
// before etcd 3.7, and inside the process.
func (r *pageReader) readStream(ctx context.Context) bool {
	err := r.sendChunks(ctx)
	if status.Code(err) == codes.Unimplemented {
		return false
	}
	if err != nil {
		r.send(ctx, page{err: fmt.Errorf("stream %s: %w", r.feed.cfg.Prefix, err)})
	}
	return true
}

// sendChunks sends each chunk of the stream as a page. etcd chooses the sizes. It reads
// the next chunk while the last one is on its way, and the stream's window bounds how far
// it is ahead.
func (r *pageReader) sendChunks(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	chunks, err := r.feed.cfg.Client.GetStream(ctx, r.feed.cfg.Prefix, clientv3.WithPrefix(), clientv3.WithRev(r.revision))
	if err != nil {
		return err
	}
	defer func() {
		cancel()
		for range chunks {
			// The client's goroutine sends until the stream has ended.
		}
	}()
	complete := false
	for chunk := range chunks {
		if err := chunk.Err(); err != nil {
			return err
		}
		// Only the last chunk has a header.
		complete = chunk.Header != nil
		if len(chunk.Kvs) > 0 && !r.send(ctx, page{objects: Objects(chunk.Kvs)}) {
			return ctx.Err()
		}
	}
	if !complete {
		return errStreamEnded
	}
	return nil
}
