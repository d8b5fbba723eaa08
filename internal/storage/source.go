package storage

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/resource"
)

// Resource is what the store reads from.
func (s *Store) Resource() *cache.Resource { return s.cfg.Resource }

// Cache is the cache that the resource is in.
func (s *Store) Cache() *cache.Cache { return s.cfg.Cache }

// Progress is how far the resource has followed etcd.
func (s *Store) Progress() *cache.Progress { return s.cfg.Cache.Progress() }

// Prefix begins the keys that callers give.
func (s *Store) Prefix() string { return s.cfg.ResourcePrefix }

// Decode returns an entry's object as handlers would get it. It implements
// encode.Config.Decode.
func (s *Store) Decode(e *resource.Entry) (runtime.Object, error) {
	if e.Opaque() {
		return nil, fmt.Errorf("decode %s: not plain", e.Key)
	}
	obj, err := s.decode(e, e.Revision)
	// An entry without attributes is being described, which finds out itself.
	// A webhook may convert the object the next time.
	if err != nil && e.Attributes != nil && s.converter == nil {
		s.cfg.Resource.MarkUndecodable(s.cfg.Cache, e, err)
	}
	return obj, err
}

// NewList makes an empty list of the storage's version.
func (s *Store) NewList() runtime.Object { return s.cfg.NewList() }
