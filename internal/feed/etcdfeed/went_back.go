package etcdfeed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/millrace/millrace/internal/feed"
)

// confirmTimeout bounds one question about etcd's history.
const confirmTimeout = 10 * time.Second

// WatchStreams counts the streams of watches that a client of etcd has opened, and how many
// of them have ended. The client opens them again by itself when they break. The zero value
// counts from 0.
type WatchStreams struct{ opened, ended atomic.Int64 }

// DialOption makes a client count its streams.
func (w *WatchStreams) DialOption() grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if method != etcdserverpb.Watch_Watch_FullMethodName {
			return open(ctx, desc, conn, method, opts...)
		}
		w.opened.Add(1)
		stream, err := open(ctx, desc, conn, method, opts...)
		if err != nil {
			w.ended.Add(1)
			return nil, err
		}
		return &countedStream{stream, &w.ended, sync.Once{}}, nil
	})
}

// changes returns a number that changes whenever a stream opens or ends.
func (w *WatchStreams) changes() int64 { return w.opened.Load() + w.ended.Load() }

// countedStream counts its end.
type countedStream struct {
	grpc.ClientStream
	ended *atomic.Int64
	once  sync.Once
}

func (s *countedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil {
		s.once.Do(func() { s.ended.Add(1) })
	}
	return err
}

// confirmHistory asks etcd whether it has, at revision, the witness as the feed has read it.
// The witness is the newest object up to that revision, and the deletion after it. Two
// histories that part before the witness have different writes there. Without a witness it
// only checks that etcd has reached the revision.
//
// It returns etcd's newest revision, read from a quorum. The error wraps feed.ErrWentBack if
// etcd has another history, and ErrCompacted if etcd no longer knows.
func (f *Feed) confirmHistory(ctx context.Context, revision int64, witness feed.Witness) (newest int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	known := witness.KnownObjects()
	if len(known) == 0 {
		resp, err := f.readAt(ctx, f.cfg.Prefix+"\x00", revision)
		if err != nil {
			return 0, err
		}
		return resp.Header.Revision, nil
	}
	for i := range known {
		o := &known[i]
		resp, err := f.readAt(ctx, string(o.Key), revision)
		if err != nil {
			return 0, err
		}
		if !isWitness(resp.Kvs, o) {
			return 0, fmt.Errorf("%w: at revision %d etcd no longer has what %s was at %d", feed.ErrWentBack, revision, o.Key, o.Revision)
		}
		newest = resp.Header.Revision
	}
	return newest, nil
}

// readAt reads key at revision.
func (f *Feed) readAt(ctx context.Context, key string, revision int64) (*clientv3.GetResponse, error) {
	resp, err := f.cfg.Client.Get(ctx, key, clientv3.WithRev(revision))
	if errors.Is(err, rpctypes.ErrFutureRev) {
		return nil, fmt.Errorf("%w: etcd was at revision %d and has not reached it", feed.ErrWentBack, revision)
	}
	if err != nil {
		return nil, fmt.Errorf("confirm etcd's history at revision %d: %w", revision, err)
	}
	return resp, f.setCluster(resp.Header)
}

func isWitness(found []*mvccpb.KeyValue, o *feed.Object) bool {
	if o.Deleted {
		return len(found) == 0
	}
	return len(found) == 1 && found[0].ModRevision == o.Revision && bytes.Equal(found[0].Value, o.Value)
}

// confirm confirms the history that the sink has.
func (f *Feed) confirm(ctx context.Context) error {
	_, err := f.confirmHistory(ctx, f.applied.Load(), f.witness)
	return err
}

// sinkState is a revision up to which the sink has all events, and the witness at that revision.
type sinkState struct {
	revision int64
	witness  feed.Witness
}

// setState records what the sink has. Only Run's goroutine calls it.
func (f *Feed) setState(revision int64) {
	f.applied.Store(revision)
	f.state.Store(&sinkState{revision, f.witness})
}

// confirmForReads confirms the history that the sink has, unless no stream of the watch has
// opened or ended since the last time. A restored etcd may be at the very revision that the
// sink has. Then no response comes that would make the feed check.
func (f *Feed) confirmForReads(ctx context.Context) error {
	streams, state := f.cfg.WatchStreams, f.state.Load()
	if streams == nil || state == nil {
		return nil
	}
	changes := streams.changes()
	if f.readsConfirmed.Load() == changes {
		return nil
	}
	if _, err := f.confirmHistory(ctx, state.revision, state.witness); err != nil {
		if errors.Is(err, feed.ErrWentBack) {
			f.fail(err)
		}
		return err
	}
	f.readsConfirmed.Store(changes)
	return nil
}

// setCluster records the cluster that has answered. It fails if another cluster answered before.
func (f *Feed) setCluster(header *etcdserverpb.ResponseHeader) error {
	answering := header.GetClusterId()
	if before := f.cluster.Load(); before != 0 && before != answering {
		return fmt.Errorf("%w: it was etcd cluster %x and is %x", feed.ErrWentBack, before, answering)
	}
	f.cluster.Store(answering)
	return nil
}

// ClusterID returns the id of the etcd cluster that the feed reads. It returns 0 before etcd's
// first answer.
func (f *Feed) ClusterID() uint64 { return f.cluster.Load() }

// suspects reports whether a response may belong to another history than the responses
// before it: etcd's client opens a broken watch again without saying so. Then the history
// has to be confirmed before the sink gets the response.
func (f *Feed) suspects(resp *stampedResponse) bool {
	reopened := false
	if streams := f.cfg.WatchStreams; streams != nil {
		opened := streams.opened.Load()
		reopened = opened != f.confirmedStreams
		f.confirmedStreams = opened
	}
	// A member that lags behind the others may answer with an older revision.
	return reopened || resp.IsProgressNotify() && resp.Header.Revision < f.applied.Load()
}

// observe keeps what was read last as the witness.
func (f *Feed) observe(objects []feed.Object) {
	for i := range objects {
		f.witness.Observe(&objects[i])
	}
}

// noteWentBack ends Run, and returns the reason.
func (f *Feed) noteWentBack(before, now int64) error {
	err := fmt.Errorf("%w: etcd was at revision %d and is at %d", feed.ErrWentBack, before, now)
	f.fail(err)
	return err
}

// fail ends Run with an error.
func (f *Feed) fail(err error) {
	select {
	case f.failed <- err:
	default: // Run has ended, or will
	}
}
