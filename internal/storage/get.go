package storage

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// Get implements storage.Interface.
func (s *Store) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	sc, ok, err := s.scope(key, false)
	if err != nil {
		return err
	}
	if !ok {
		return s.cfg.Etcd.Get(ctx, key, opts, out)
	}
	if err := s.waitFor(ctx, opts.ResourceVersion); err != nil {
		return err
	}
	e := s.cfg.Resource.Snapshot().Get(sc.key)
	switch {
	case e == nil && opts.IgnoreNotFound:
		return runtime.SetZeroValue(out)
	case e == nil:
		return storage.NewKeyNotFoundError(sc.etcdKey, 0)
	case e.Err != nil:
		return s.cfg.Etcd.Get(ctx, key, opts, out)
	}
	return s.decodeInto(e, e.Revision, out)
}
