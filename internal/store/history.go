package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// compactedTimeout bounds the wait for etcd to say what it has compacted.
const compactedTimeout = 10 * time.Second

// span finds the revision to load at, and the newest one. The first is the oldest
// that etcd holds, but neither out of bounds nor before what the sink has had.
func (f *Feed) span(ctx context.Context, history bool) (from, newest int64, err error) {
	now, err := f.count(ctx, 0)
	if err != nil {
		return 0, 0, err
	}
	newest = now.Header.Revision
	from = max(1, newest-max(0, f.cfg.HistoryRevisions), f.reached)
	if !history || from >= newest {
		return newest, newest, nil
	}
	then, err := f.count(ctx, from)
	if errors.Is(err, rpctypes.ErrCompacted) {
		if from, err = f.compacted(ctx, from); err == nil {
			then, err = f.count(ctx, from)
		}
	}
	if err != nil {
		return 0, 0, err
	}
	if now.Count-then.Count > f.cfg.HistoryRevisions {
		// Somebody filled etcd with many objects a revision, as Kubernetes never does.
		return newest, newest, nil
	}
	// etcd may have been compacted to a newer one in between.
	return from, max(from, newest), nil
}

// count counts the objects at a revision, which also tells whether etcd holds it.
// A watch would make etcd read all events since. Revision 0 is the newest.
func (f *Feed) count(ctx context.Context, revision int64) (*clientv3.GetResponse, error) {
	resp, err := f.cfg.Client.Get(ctx, f.cfg.Prefix, clientv3.WithPrefix(), clientv3.WithCountOnly(), clientv3.WithRev(revision))
	if err != nil {
		return nil, fmt.Errorf("count %s at revision %d: %w", f.cfg.Prefix, revision, err)
	}
	return resp, nil
}

// compacted asks what etcd has been compacted to. The revision must be one that
// is gone: a watch from there ends at once and says so.
func (f *Feed) compacted(ctx context.Context, gone int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, compactedTimeout)
	defer cancel()
	for resp := range f.cfg.Client.Watch(ctx, f.cfg.Prefix+"\x00", clientv3.WithRev(gone)) {
		if resp.CompactRevision > 0 {
			return resp.CompactRevision, nil
		}
		if err := resp.Err(); err != nil {
			return 0, fmt.Errorf("ask for the compacted revision: %w", err)
		}
	}
	return 0, fmt.Errorf("ask for the compacted revision: %w", context.Cause(ctx))
}
