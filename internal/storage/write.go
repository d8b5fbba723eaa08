package storage

import (
	"bytes"
	"context"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/millrace/millrace/internal/stack"
)

// Create implements storage.Interface.
func (s *Store) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	return s.cfg.Etcd.Create(ctx, key, obj, out, ttl)
}

// Delete implements storage.Interface.
func (s *Store) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, _ runtime.Object, opts storage.DeleteOptions) error {
	suggested := s.suggestion(key)
	defer s.forget(suggested)
	return s.cfg.Etcd.Delete(ctx, key, out, preconditions, validate, suggested, opts)
}

// GuaranteedUpdate implements storage.Interface.
func (s *Store) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, _ runtime.Object) error {
	stack.GrowTwice(uint(len(key))) // Kubernetes updates in a goroutine of its own, in which tryUpdate is most of the depth
	suggested := s.suggestion(key)
	defer s.forget(suggested)
	return s.cfg.Etcd.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, tryUpdate, suggested)
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
	obj := s.cfg.New()
	err = e.Read(func(value []byte) error {
		if s.cfg.Suggestions != nil {
			s.cfg.Suggestions.storedBytes.Store(obj, bytes.Clone(value))
		}
		return s.decoder.Decode(value, obj, e.Revision)
	})
	if err != nil {
		s.forget(obj)
		return nil
	}
	return obj
}

// forget lets go of a suggestion that Kubernetes' store did not encode.
func (s *Store) forget(suggestion runtime.Object) {
	if suggestion != nil && s.cfg.Suggestions != nil {
		s.cfg.Suggestions.storedBytes.Delete(suggestion)
	}
}

// SuggestionCodec is the codec that Kubernetes' store of a resource writes with. The
// store wants to know how what is suggested to it is stored and encodes it to find
// out; that is known. The zero value but for Codec is ready.
type SuggestionCodec struct {
	runtime.Codec
	// storedBytes are the bytes of suggestions that are under way, by their objects.
	storedBytes sync.Map // of runtime.Object, []byte
}

// Encode implements runtime.Encoder. Only the first encoding of a suggestion is of
// what was suggested: then it may be changed.
func (s *SuggestionCodec) Encode(obj runtime.Object, w io.Writer) error {
	if stored, ok := s.storedBytes.LoadAndDelete(obj); ok {
		_, err := w.Write(stored.([]byte))
		return err
	}
	return s.Codec.Encode(obj, w)
}
