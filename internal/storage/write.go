package storage

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// Create implements storage.Interface.
func (s *Store) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	return s.cfg.Etcd.Create(ctx, key, obj, out, ttl)
}

// Delete implements storage.Interface.
func (s *Store) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, _ runtime.Object, opts storage.DeleteOptions) error {
	return s.cfg.Etcd.Delete(ctx, key, out, preconditions, validate, s.suggestion(key), opts)
}

// GuaranteedUpdate implements storage.Interface.
func (s *Store) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, _ runtime.Object) error {
	return s.cfg.Etcd.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, tryUpdate, s.suggestion(key))
}

// suggestion is the cached object of a key, which saves a write its read of
// etcd. It may be stale: the transaction finds out and reads again. Nil if there
// is none.
func (s *Store) suggestion(key string) runtime.Object {
	sc, ok, err := s.scope(key, false)
	if err != nil || !ok {
		return nil
	}
	e := s.cfg.Resource.Snapshot().Get(sc.key)
	if e == nil || e.Err != nil {
		return nil
	}
	obj, err := s.decode(e, e.Revision)
	if err != nil {
		return nil
	}
	return obj
}
