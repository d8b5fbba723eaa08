package storage

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"

	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/entry"
)

// Config configures Store. All fields are needed unless they say otherwise.
type Config struct {
	// Etcd is Kubernetes' store of the same resource.
	Etcd storage.Interface
	// Open opens Kubernetes' store of the same resource with another codec. Only With needs
	// Open.
	Open func(runtime.Codec) (storage.Interface, error)
	// Suggestions is the codec that Etcd encodes with. Nil means that Etcd encodes the
	// suggestions it gets.
	Suggestions *SuggestionCodec
	// Cache, Resource and Consistent answer reads.
	Cache      *cache.Cache
	Resource   *cache.Resource
	Consistent *cache.Consistent
	// Prover proves reads whose wait PassOnAfter bounds. Nil means that Consistent does.
	Prover *cache.Prover
	// Codec decodes stored bytes to the version that the storage works with.
	Codec runtime.Codec
	// ResourcePrefix begins the resource's keys as callers give them: "/pods".
	ResourcePrefix string
	// PathPrefix precedes those keys in etcd: "/registry".
	PathPrefix string
	// New and NewList make empty objects of the storage's version.
	New, NewList func() runtime.Object
	// LikeEtcd means that errors and limits are as for a kind that Kubernetes keeps out of
	// its watch cache and reads from etcd.
	LikeEtcd bool
	// PassOnAfter bounds how long a read waits until the cache is as new as the read asks. Then
	// the error wraps cache.ErrUnproven, and another server has to answer. Before the first load
	// it wraps cache.ErrNotReady, without a wait. Zero means that reads wait as in Kubernetes,
	// and end with its errors.
	PassOnAfter time.Duration
	// WatchPassOnAfter takes the place of PassOnAfter for watches that begin with the newest
	// state and cost much, and for a list of several megabytes. Zero means PassOnAfter.
	WatchPassOnAfter time.Duration
	// MaxStaleness is how old the answer of a read may be that has a cache.Staleness. Zero
	// means that all answers must be new.
	MaxStaleness time.Duration
	// IndexedFields are the fields that Kubernetes' watch cache would index. It may be nil.
	IndexedFields []string
	// Attributes reads labels and selectable fields.
	Attributes storage.AttrFunc
	// Verbatim is set if the cache has objects as an API server of another version sends
	// them. Nil means that the cache has them as Kubernetes stores them.
	Verbatim *Verbatim
	// Usable returns an error for objects that lists and watches leave out for this server's
	// own user. Objects that cannot be read are left out too. key is the key of the entry. Nil
	// means that nothing is left out.
	Usable func(key string, obj runtime.Object) error
	// Clock drives bookmarks. Nil means the real clock.
	Clock Clock

	coverage attributeCoverage
}

// Store implements storage.Interface for one storage of one resource. It keeps no
// objects: each read takes an immutable snapshot of the cache's Resource. That costs
// a decoding for each object that a handler gets, and saves a second cache.
//
// A Store starts a goroutine for each watch and no other. Stop ends these goroutines.
type Store struct {
	cfg       Config
	versioner storage.APIObjectVersioner
	decoder   etcd3.Decoder
	// converter is the codec if a webhook converts stored objects. It is nil otherwise.
	converter ConvertingCodec
	shared    sharedObjects
	// estimatesSizes says that Stats estimates the size of objects.
	estimatesSizes atomic.Bool

	// stop is closed by Stop.
	stop     chan struct{}
	stopOnce sync.Once
}

var _ storage.Interface = (*Store)(nil)

// New makes a store. It starts nothing.
func New(cfg Config) *Store {
	if cfg.Clock == nil {
		cfg.Clock = realClock{}
	}
	cfg.PathPrefix = path.Join("/", cfg.PathPrefix)
	if !strings.HasSuffix(cfg.PathPrefix, "/") {
		cfg.PathPrefix += "/"
	}
	cfg.coverage = coverageOf(&cfg)
	s := &Store{cfg: cfg, stop: make(chan struct{})}
	if c, ok := cfg.Codec.(ConvertingCodec); ok && c.ConvertsLabels() {
		s.converter = c
	}
	s.decoder = guardedDecoder{etcd3.NewDefaultDecoder(cfg.Codec, s.versioner), cfg.Cache.Panics}
	return s
}

// With returns a store of the same objects with another codec, for another version.
func (s *Store) With(codec runtime.Codec) (*Store, error) {
	cfg := s.cfg
	cfg.Codec, cfg.Suggestions = codec, &SuggestionCodec{Codec: codec}
	var err error
	if cfg.Etcd, err = cfg.Open(cfg.Suggestions); err != nil {
		return nil, fmt.Errorf("open storage of %s: %w", cfg.ResourcePrefix, err)
	}
	return New(cfg), nil
}

// Stop ends the store's watches. It does not release the resource: its registration
// belongs to the caller.
func (s *Store) Stop() { s.stopOnce.Do(func() { close(s.stop) }) }

// EtcdPrefix returns the beginning of a resource's keys in etcd, with a slash at the
// end. The arguments are PathPrefix and ResourcePrefix of Config.
func EtcdPrefix(pathPrefix, resourcePrefix string) string {
	return strings.TrimSuffix(path.Join("/", pathPrefix, resourcePrefix), "/") + "/"
}

// scope is the range of keys that a request reads: one key, or all keys with a prefix.
type scope struct {
	// key is relative to the resource's prefix.
	key string
	// etcdKey is the same key in etcd.
	etcdKey string
	// tokenPrefix is the beginning of keys in etcd that a list's tokens omit.
	tokenPrefix string
	// keepsSlash says that tokens keep the slash at the end of tokenPrefix.
	keepsSlash bool
	// recursive says that key is a prefix.
	recursive bool
}

// scope checks a caller's key and translates it. ok is false for a key that cannot
// belong to the resource.
//
// Upstream: k8s.io/apiserver/pkg/storage/cacher.Cacher.prepareKey; compare at each upgrade.
func (s *Store) scope(key string, recursive bool) (sc scope, ok bool, err error) {
	prepared, err := storage.PrepareKey(s.cfg.ResourcePrefix, key, recursive)
	if err != nil {
		return scope{}, false, err
	}
	etcdKey := s.cfg.PathPrefix + strings.TrimPrefix(prepared, "/")
	relative, ok := strings.CutPrefix(etcdKey, s.cfg.Resource.Prefix())
	// The tokens of Kubernetes' watch cache omit the caller's key. The tokens of its etcd
	// storage omit the key with a slash at its end.
	keepsSlash := recursive && !s.cfg.LikeEtcd && !strings.HasSuffix(key, "/")
	return scope{key: relative, etcdKey: etcdKey, tokenPrefix: etcdKey, keepsSlash: keepsSlash, recursive: recursive}, ok, nil
}

// decodeAt returns a fresh object with revision as its resource version.
func (s *Store) decodeAt(e *entry.Entry, revision int64) (runtime.Object, error) {
	obj := s.cfg.New()
	if err := s.decodeInto(e, revision, obj); err != nil {
		return nil, fmt.Errorf("decode %s: %w", e.Key, err)
	}
	return obj, nil
}

// decodeInto fills an empty object, which does not refer to the stored bytes.
func (s *Store) decodeInto(e *entry.Entry, revision int64, out runtime.Object) error {
	return e.Read(func(value []byte) error { return s.decoder.Decode(value, out, revision) })
}

// Versioner implements storage.Interface.
func (s *Store) Versioner() storage.Versioner { return s.versioner }

// ReadinessCheck implements storage.Interface.
func (s *Store) ReadinessCheck() error {
	if s.cfg.Cache.Ready() != nil {
		return storage.ErrStorageNotReady
	}
	return nil
}

// RequestWatchProgress implements storage.Interface.
func (s *Store) RequestWatchProgress(ctx context.Context) error {
	return s.cfg.Etcd.RequestWatchProgress(ctx)
}

// GetCurrentResourceVersion implements storage.Interface.
func (s *Store) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	return s.cfg.Etcd.GetCurrentResourceVersion(ctx)
}

// EnableResourceSizeEstimation implements storage.Interface. It ignores its argument: the cache
// knows the keys.
func (s *Store) EnableResourceSizeEstimation(storage.KeysFunc) error {
	s.estimatesSizes.Store(true)
	return nil
}

// Stats implements storage.Interface. It asks the cache, and etcd only before the first load:
// Kubernetes calls it for each resource each minute. Values are measured decrypted.
//
// Upstream: k8s.io/apiserver/pkg/storage/etcd3.store.Stats; compare at each upgrade.
func (s *Store) Stats(ctx context.Context) (storage.Stats, error) {
	if s.cfg.Cache.Ready() != nil {
		return s.cfg.Etcd.Stats(ctx)
	}
	snapshot := s.cfg.Resource.Snapshot()
	stats := storage.Stats{ObjectCount: int64(snapshot.Len())}
	if s.estimatesSizes.Load() && stats.ObjectCount > 0 {
		stats.EstimatedAverageObjectSizeBytes = snapshot.Bytes / stats.ObjectCount
	}
	return stats, nil
}

// CompactRevision implements storage.Interface.
func (s *Store) CompactRevision() int64 { return s.cfg.Etcd.CompactRevision() }
