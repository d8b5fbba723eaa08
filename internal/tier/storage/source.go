package storage

import (
	"bytes"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/entry"
)

// Resource returns the cached resource that the store reads from.
func (s *Store) Resource() *cache.Resource { return s.cfg.Resource }

// Cache returns the cache that the resource is in.
func (s *Store) Cache() *cache.Cache { return s.cfg.Cache }

// Progress returns how far the cache has followed its source.
func (s *Store) Progress() *cache.Progress { return s.cfg.Cache.Progress() }

// WaitConsistent returns once the cache holds every write that was acknowledged before the
// call. After 10 s it returns an error.
func (s *Store) WaitConsistent(ctx context.Context) error {
	if _, err := s.cfg.Consistent.Wait(ctx); err != nil {
		return fmt.Errorf("wait for the newest %s: %w", s.cfg.Resource.GroupResource(), err)
	}
	return nil
}

// Notify calls reached once the cache holds every event up to revision. It is
// cache.Consistent.Notify.
func (s *Store) Notify(revision int64, reached func()) (cancel func()) {
	return s.cfg.Consistent.Notify(revision, reached)
}

// Prefix returns Config.ResourcePrefix, with which the keys of callers begin.
func (s *Store) Prefix() string { return s.cfg.ResourcePrefix }

// Decode returns an entry's object as Kubernetes' handlers would get it, fresh and
// owned by the caller. It is meant for encode.Config.Decode. If an entry with
// attributes cannot be decoded, and no webhook converts it, it is marked, so that its
// reads go to Kubernetes' handlers.
func (s *Store) Decode(e *entry.Entry) (runtime.Object, error) {
	if e.Opaque() {
		return nil, fmt.Errorf("decode %s: opaque", e.Key)
	}
	obj, err := s.decodeAt(e, e.Revision)
	// The cache still reads an entry without attributes, and marks it itself. An object that
	// a webhook did not convert may be converted the next time.
	if err != nil && e.Attributes != nil && s.converter == nil {
		s.cfg.Resource.MarkUndecodable(s.cfg.Cache, e, err)
	}
	return obj, err
}

// EncodeForStorage returns an entry's object as Kubernetes would encode it for etcd now. Unlike
// PrepareObjectForStorage it keeps selfLink, because Kubernetes sends one that is stored.
//
// Upstream: k8s.io/apiserver/pkg/storage.APIObjectVersioner.PrepareObjectForStorage; compare at each upgrade.
func (s *Store) EncodeForStorage(e *entry.Entry) ([]byte, error) {
	obj, err := s.Decode(e)
	if err != nil {
		return nil, err
	}
	var encoded bytes.Buffer
	err = s.cfg.Cache.Panics().Guard(panics.Encode, func() error {
		accessor, err := meta.Accessor(obj)
		if err != nil {
			return err
		}
		accessor.SetResourceVersion("")
		return s.cfg.Codec.Encode(obj, &encoded)
	})
	if err != nil {
		return nil, fmt.Errorf("encode %s for storage: %w", e.Key, err)
	}
	return encoded.Bytes(), nil
}

// NewList returns an empty list of the storage's version.
func (s *Store) NewList() runtime.Object { return s.cfg.NewList() }
