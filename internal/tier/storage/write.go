package storage

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/millrace/millrace/internal/conn/growstack"
)

// Create implements storage.Interface.
func (s *Store) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	return s.cfg.Etcd.Create(ctx, key, obj, out, ttl)
}

// Delete implements storage.Interface. It ignores the caller's suggestion, and suggests the
// object that the cache has now.
func (s *Store) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, _ runtime.Object, opts storage.DeleteOptions) error {
	suggestion := s.suggestion(key)
	defer s.forget(suggestion)
	return s.cfg.Etcd.Delete(ctx, key, out, preconditions, validate, suggestion, opts)
}

// GuaranteedUpdate implements storage.Interface. It ignores the caller's suggestion, and
// suggests the object that the cache has now.
//
// Kubernetes' handlers call it in a goroutine of its own, and most of the depth of that
// goroutine's stack is tryUpdate. So the stack is grown before, once.
func (s *Store) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, _ runtime.Object) error {
	growstack.GrowTwice(uint(len(key)))
	suggestion := s.suggestion(key)
	defer s.forget(suggestion)
	return s.cfg.Etcd.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, tryUpdate, suggestion)
}
