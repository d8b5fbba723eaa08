package storage

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/resource"
)

// Config of a Store. All fields but those that say otherwise are needed.
type Config struct {
	// Etcd is Kubernetes' store of the same resource.
	Etcd storage.Interface
	// Open opens another one, which encodes and decodes with a codec. Only With needs
	// it.
	Open func(runtime.Codec) (storage.Interface, error)
	// Suggestions is what Etcd encodes with. Nil is for another that need not know.
	Suggestions *SuggestionCodec
	// Cache, Resource and Consistent are what reads come from.
	Cache      *cache.Cache
	Resource   *cache.Resource
	Consistent *cache.Consistent
	// Codec decodes stored bytes to the version that the storage works with.
	Codec runtime.Codec
	// ResourcePrefix begins the resource's keys as callers give them: "/pods".
	ResourcePrefix string
	// PathPrefix stands before them in etcd: "/registry".
	PathPrefix string
	// New and NewList make empty objects of the storage's version.
	New, NewList func() runtime.Object
	// LikeEtcd gives errors and limits as Kubernetes does for kinds that it keeps
	// out of its watch cache.
	LikeEtcd bool
	// IndexedFields are those that Kubernetes' watch cache would index.
	IndexedFields []string
	// Attributes reads labels and selectable fields.
	Attributes storage.AttrFunc
	// Clock drives bookmarks. Nil means the real one.
	Clock Clock

	coverage attributeCoverage
}

// Store implements storage.Interface.
type Store struct {
	cfg       Config
	versioner storage.APIObjectVersioner
	decoder   etcd3.Decoder
	// converter is the codec if a webhook converts what is stored, else nil.
	converter ConvertingCodec
	shared    sharedObjects
	// estimatesSizes says that Stats is to tell them.
	estimatesSizes atomic.Bool

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
	cfg.coverage = coverageOf(cfg.New, cfg.Codec)
	s := &Store{cfg: cfg, stop: make(chan struct{})}
	if c, ok := cfg.Codec.(ConvertingCodec); ok && c.ConvertsLabels() {
		s.converter = c
	}
	s.decoder = etcd3.NewDefaultDecoder(cfg.Codec, s.versioner)
	return s
}

// With returns a store of the same objects in other forms: those of a codec.
func (s *Store) With(codec runtime.Codec) (*Store, error) {
	cfg := s.cfg
	cfg.Codec, cfg.Suggestions = codec, &SuggestionCodec{Codec: codec}
	var err error
	if cfg.Etcd, err = cfg.Open(cfg.Suggestions); err != nil {
		return nil, fmt.Errorf("open storage of %s: %w", cfg.ResourcePrefix, err)
	}
	return New(cfg), nil
}

// Stop ends the store's watches. The resource stays registered; who registered
// it releases it.
func (s *Store) Stop() { s.stopOnce.Do(func() { close(s.stop) }) }

// EtcdPrefix is the beginning of a resource's keys in etcd, with a slash at the
// end, given the two prefixes of Config.
func EtcdPrefix(pathPrefix, resourcePrefix string) string {
	return strings.TrimSuffix(path.Join("/", pathPrefix, resourcePrefix), "/") + "/"
}

// scope is what a request reads: one key or all below a prefix, relative to
// the resource's prefix, and the same in etcd.
type scope struct {
	key     string
	etcdKey string
	// tokenPrefix is the beginning of keys in etcd that a list's tokens leave out.
	tokenPrefix string
	// keepsSlash says that they leave out no slash behind it.
	keepsSlash bool
	recursive  bool
}

// scope checks a caller's key and translates it. Keys that cannot belong to the
// resource have ok = false.
func (s *Store) scope(key string, recursive bool) (sc scope, ok bool, err error) {
	prepared, err := storage.PrepareKey(s.cfg.ResourcePrefix, key, recursive)
	if err != nil {
		return scope{}, false, err
	}
	etcdKey := s.cfg.PathPrefix + strings.TrimPrefix(prepared, "/")
	relative, ok := strings.CutPrefix(etcdKey, s.cfg.Resource.Prefix())
	// Kubernetes' watch cache leaves out the key that it is given, etcd's storage the
	// one with a slash at its end.
	slashed := recursive && !s.cfg.LikeEtcd && !strings.HasSuffix(key, "/")
	return scope{key: relative, etcdKey: etcdKey, tokenPrefix: etcdKey, keepsSlash: slashed, recursive: recursive}, ok, nil
}

// decode returns a fresh object with its resource version set.
func (s *Store) decode(e *resource.Entry, revision int64) (runtime.Object, error) {
	obj := s.cfg.New()
	if err := s.decodeInto(e, revision, obj); err != nil {
		return nil, fmt.Errorf("decode %s: %w", e.Key, err)
	}
	return obj, nil
}

// decodeInto fills an empty object. Decoders copy what they keep.
func (s *Store) decodeInto(e *resource.Entry, revision int64, out runtime.Object) error {
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

// EnableResourceSizeEstimation implements storage.Interface. The cache knows the
// keys.
func (s *Store) EnableResourceSizeEstimation(storage.KeysFunc) error {
	s.estimatesSizes.Store(true)
	return nil
}

// Stats implements storage.Interface. It asks the cache: servers call it each
// minute for each resource. The size is that of decrypted values.
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
