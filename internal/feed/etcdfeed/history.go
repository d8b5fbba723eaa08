package etcdfeed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// compactedTimeout bounds the wait for etcd's compacted revision.
const compactedTimeout = 10 * time.Second

// loadRevisions returns the revision to load at, and etcd's newest revision. Without
// history both are the same. Otherwise the load is at the oldest revision that etcd
// holds, within HistoryRevisions and not before the applied one. It is at the newest
// revision as well if more objects than HistoryRevisions were added since.
func (f *Feed) loadRevisions(ctx context.Context, history bool) (from, newest int64, err error) {
	count, err := f.countAt(ctx, 0)
	if err != nil {
		return 0, 0, err
	}
	newest = count.Header.Revision
	if err := f.setCluster(count.Header); err != nil {
		return 0, 0, err
	}
	applied := f.applied.Load()
	if newest < applied {
		return 0, 0, f.noteWentBack(applied, newest)
	}
	from = max(1, newest-max(0, f.cfg.HistoryRevisions), applied)
	if !history || from >= newest {
		return newest, newest, nil
	}
	then, err := f.countAt(ctx, from)
	if errors.Is(err, rpctypes.ErrCompacted) {
		if from, err = f.compactRevision(ctx, from); err == nil {
			then, err = f.countAt(ctx, from)
		}
	}
	if err != nil {
		return 0, 0, err
	}
	if count.Count-then.Count > f.cfg.HistoryRevisions {
		// A tool has written many objects in one revision, as Kubernetes never does. The
		// replay would be larger than its bound.
		return newest, newest, nil
	}
	// Since the first count etcd may have been compacted to a revision above newest.
	return from, max(from, newest), nil
}

// countAt counts the objects at revision; 0 is the newest. It fails with ErrCompacted if etcd
// does not hold the revision. A watch would show it too, but make etcd read all events since.
func (f *Feed) countAt(ctx context.Context, revision int64) (*clientv3.GetResponse, error) {
	resp, err := f.cfg.Client.Get(ctx, f.cfg.Prefix, clientv3.WithPrefix(), clientv3.WithCountOnly(), clientv3.WithRev(revision))
	if err != nil {
		return nil, fmt.Errorf("count %s at revision %d: %w", f.cfg.Prefix, revision, err)
	}
	return resp, nil
}

// compactRevision returns the revision that etcd was compacted to. gone must be a
// revision that etcd no longer holds: a watch from it ends immediately with the answer.
func (f *Feed) compactRevision(ctx context.Context, gone int64) (int64, error) {
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
