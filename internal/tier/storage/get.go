package storage

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/millrace/millrace/internal/account/usage"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/encode"
	"github.com/millrace/millrace/internal/wire/entry"
)

// Get implements storage.Interface.
//
// Upstream: k8s.io/apiserver/pkg/storage/cacher.CacheDelegator.Get; compare at each upgrade.
func (s *Store) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	run, err := s.Find(ctx, key, opts.ResourceVersion)
	switch {
	case isExpired(err):
		return s.cfg.Etcd.Get(ctx, key, opts, out)
	case storage.IsNotFound(err) && opts.IgnoreNotFound:
		return runtime.SetZeroValue(out)
	case err != nil:
		return err
	}
	e := run.Entries[run.From]
	if e.Err != nil {
		return s.cfg.Etcd.Get(ctx, key, opts, out)
	}
	if err := s.Convert(ctx, []*entry.Entry{e}); err != nil {
		if ctx.Err() != nil {
			return err
		}
		// Kubernetes' error says that the object is corrupt. DELETE relies on that if it is
		// to remove the object unread.
		return s.cfg.Etcd.Get(ctx, key, opts, out)
	}
	return s.decodeInto(e, e.Revision, out)
}

// Find returns where an object is in the cache, once the cache is as fresh as the
// resource version asks. The run holds one entry. An error that wraps
// cache.ErrExpired means that only etcd may have the object.
func (s *Store) Find(ctx context.Context, key, resourceVersion string) (encode.EntryRun, error) {
	sc, ok, err := s.scope(key, false)
	if err != nil {
		return encode.EntryRun{}, err
	}
	if !ok {
		return encode.EntryRun{}, fmt.Errorf("get %s: %w", key, cache.ErrExpired)
	}
	began := time.Now()
	proven, err := s.waitFor(ctx, resourceVersion, readCost{examined: 1})
	usage.AddWait(ctx, began)
	if err != nil {
		return encode.EntryRun{}, err
	}
	run, ok := s.newest(proven).Find(sc.key)
	if !ok {
		return encode.EntryRun{}, storage.NewKeyNotFoundError(sc.etcdKey, 0)
	}
	return run, nil
}
