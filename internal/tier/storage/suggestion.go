package storage

import (
	"bytes"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
)

// suggestion returns the cached object of a key, or nil if there is none that can be read. It is
// the cachedExistingObject of a write of Kubernetes' store, and usually saves the write its read of
// etcd. That store reads etcd after all if the object is stale and the transaction fails, if a
// check fails, or if the write changes nothing. The caller owns the object, and must call forget
// with it after the write.
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

// forget drops the stored bytes of a suggestion, if Kubernetes' store has not encoded it. It does
// nothing for nil.
func (s *Store) forget(suggestion runtime.Object) {
	if suggestion != nil && s.cfg.Suggestions != nil {
		s.cfg.Suggestions.storedBytes.Delete(suggestion)
	}
}

// SuggestionCodec is the codec by which Kubernetes' store of a resource encodes what it
// writes. That store compares the bytes before and after a change, to skip a write
// without effect. So it encodes each suggestion that it gets. Encode writes the stored bytes in
// place of that encoding. If the two differ, the store skips nothing, as after its own read.
//
// A suggestion is known by its address. Only its first encoding writes the stored
// bytes: afterwards the object may have changed. The cost is one copy of the stored
// bytes for each write, instead of an encoding.
//
// The zero value with a Codec is ready. It is safe for use by several goroutines.
//
// Upstream: k8s.io/apiserver/pkg/storage/etcd3.store.GuaranteedUpdate; compare at each upgrade.
type SuggestionCodec struct {
	runtime.Codec
	// storedBytes has the stored bytes of suggestions, until the first encoding or forget.
	storedBytes sync.Map // from runtime.Object to []byte
}

// Encode implements runtime.Encoder.
func (s *SuggestionCodec) Encode(obj runtime.Object, w io.Writer) error {
	if stored, ok := s.storedBytes.LoadAndDelete(obj); ok {
		_, err := w.Write(stored.([]byte))
		return err
	}
	return s.Codec.Encode(obj, w)
}
