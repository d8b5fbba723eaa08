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
)

// ErrWentBack says that the source of a feed is not what it was: its newest revision is
// older than one that the feed has read, or it has other objects at such a revision. Its
// etcd was restored from a backup, or another server answers at its address. Nothing that
// the feed has handed on can be trusted then.
var ErrWentBack = errors.New("the source of objects has gone back in time, or is another one")

// confirmTimeout bounds one question about etcd's history.
const confirmTimeout = 10 * time.Second

// WatchStreams counts the streams of watches that a client of etcd has opened, and those that
// have ended. The client opens them again by itself when they break. The zero value counts
// from 0.
type WatchStreams struct{ opened, ended atomic.Int64 }

// DialOption has a client count its streams.
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

// breaks changes whenever a stream opens or ends.
func (w *WatchStreams) breaks() int64 { return w.opened.Load() + w.ended.Load() }

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

// RunUntil runs a feed until its context ends, or until failed has an error, and then ends
// the context of run. It returns what run returned, or the error from failed. The feed is broken
// if that is ErrWentBack.
func RunUntil(ctx context.Context, failed <-chan error, health *Health, run func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case err := <-failed:
			cancel(err)
		case <-ctx.Done():
		}
	}()
	err := run(ctx)
	cancel(nil)
	<-ended
	if cause := context.Cause(ctx); errors.Is(cause, ErrWentBack) {
		err = cause
	}
	if errors.Is(err, ErrWentBack) {
		health.SetBroken(err)
	}
	return err
}

// confirmHistory asks etcd whether it has, at a revision, the witness as the feed has read
// it. The witness is the newest object up to that revision: two histories that part before
// it have different writes at its revision. It returns etcd's newest revision, read from a
// quorum. The error wraps ErrWentBack if etcd has another history, and is ErrCompacted if
// etcd no longer knows. A nil witness proves only that etcd has reached the revision.
func (f *Feed) confirmHistory(ctx context.Context, revision int64, witness *mvccpb.KeyValue) (newest int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	key := f.cfg.Prefix + "\x00"
	if witness != nil {
		key = string(witness.Key)
	}
	resp, err := f.cfg.Client.Get(ctx, key, clientv3.WithRev(revision))
	if errors.Is(err, rpctypes.ErrFutureRev) {
		return 0, fmt.Errorf("%w: etcd was at revision %d and has not reached it", ErrWentBack, revision)
	}
	if err != nil {
		return 0, fmt.Errorf("confirm etcd's history at revision %d: %w", revision, err)
	}
	if err := f.setCluster(resp.Header); err != nil {
		return 0, err
	}
	if witness != nil && !isWitness(resp.Kvs, witness) {
		return 0, fmt.Errorf("%w: at revision %d etcd no longer has what %s was at %d", ErrWentBack, revision, witness.Key, witness.ModRevision)
	}
	return resp.Header.Revision, nil
}

func isWitness(found []*mvccpb.KeyValue, witness *mvccpb.KeyValue) bool {
	return len(found) == 1 && found[0].ModRevision == witness.ModRevision && bytes.Equal(found[0].Value, witness.Value)
}

// confirm confirms the history that the sink has.
func (f *Feed) confirm(ctx context.Context) error {
	_, err := f.confirmHistory(ctx, f.applied.Load(), f.witness)
	return err
}

// sinkState is a revision up to which the sink has all events, and the witness of then.
type sinkState struct {
	revision int64
	witness  *mvccpb.KeyValue
}

// setState notes what the sink has. Only Run's goroutine calls it.
func (f *Feed) setState(revision int64) {
	f.applied.Store(revision)
	f.state.Store(&sinkState{revision, f.witness})
}

// confirmForReads confirms the history that the sink has, unless no stream of the watch has
// opened or ended since the last time. The sink may have the revision that a restored etcd is
// at, by chance: then no response comes that would make the feed look.
func (f *Feed) confirmForReads(ctx context.Context) error {
	streams, state := f.cfg.WatchStreams, f.state.Load()
	if streams == nil || state == nil {
		return nil
	}
	breaks := streams.breaks()
	if f.readsConfirmed.Load() == breaks {
		return nil
	}
	if _, err := f.confirmHistory(ctx, state.revision, state.witness); err != nil {
		if errors.Is(err, ErrWentBack) {
			f.fail(err)
		}
		return err
	}
	f.readsConfirmed.Store(breaks)
	return nil
}

// setCluster notes the cluster that has answered. It fails if that was another one before.
func (f *Feed) setCluster(header *etcdserverpb.ResponseHeader) error {
	now := header.GetClusterId()
	if before := f.cluster.Load(); before != 0 && before != now {
		return fmt.Errorf("%w: it was etcd cluster %x and is %x", ErrWentBack, before, now)
	}
	f.cluster.Store(now)
	return nil
}

// ClusterID returns the id of the etcd cluster that the feed has loaded, 0 before.
func (f *Feed) ClusterID() uint64 { return f.cluster.Load() }

// suspects reports whether a response may belong to another history than those before it:
// etcd's client opens a broken watch again without saying so. Then the history has to be
// confirmed before the sink gets the response.
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

// observe keeps the newest object of a load as the witness.
func (f *Feed) observe(kvs []*mvccpb.KeyValue) {
	for _, kv := range kvs {
		if f.witness == nil || kv.ModRevision > f.witness.ModRevision {
			f.witness = kv
		}
	}
}

// observeEvents keeps the newest object of some events as the witness. A witness that was
// deleted proves nothing.
func (f *Feed) observeEvents(events []*clientv3.Event) {
	for _, e := range events {
		switch {
		case e.Type == clientv3.EventTypePut:
			f.witness = e.Kv
		case f.witness != nil && bytes.Equal(f.witness.Key, e.Kv.Key):
			f.witness = nil
		}
	}
}

// noteWentBack ends Run, and returns the reason.
func (f *Feed) noteWentBack(before, now int64) error {
	err := fmt.Errorf("%w: etcd was at revision %d and is at %d", ErrWentBack, before, now)
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
