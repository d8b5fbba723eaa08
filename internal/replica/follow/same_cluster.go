package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/replica/upstream"
	"github.com/millrace/millrace/internal/tier/storage"
	"github.com/millrace/millrace/internal/wire/entry"
)

const (
	// comparisons is how often etcd and the upstream must differ in a row, comparisonPause
	// apart: objects change between the two questions.
	comparisons     = 5
	comparisonPause = time.Second
	// comparisonTimeout bounds all comparisons of a resource.
	comparisonTimeout = 30 * time.Second
	// comparisonsAtATime bounds the questions to the upstream at the start.
	comparisonsAtATime = 8
	// recompareAfter is how long reads of a resource are passed on after a comparison failed.
	recompareAfter = 5 * time.Minute
)

// sameCluster shows that a replica's etcd is its upstream's, for each resource before it is
// answered. Otherwise an empty prefix, another cluster, or a resource that lives in another etcd
// would be answered as if it had no objects.
type sameCluster struct {
	// stored returns the store of a resource, or nil. Policy.Use sets it.
	stored func(schema.GroupResource) *storage.Store
	// first returns the first object at the upstream.
	first func(context.Context, schema.GroupResource) (upstream.ObjectVersion, error)
	// warn logs a warning.
	warn func(message string, args ...any)

	mu struct {
		sync.Mutex
		// byResource has the resources that were compared, or are being compared.
		byResource map[schema.GroupResource]*comparison
	}
}

// comparison is what is known of a resource.
type comparison struct {
	// same says that the resource is the same, or that the upstream forbids the comparison.
	same bool
	// againAt is when a read compares the resource again, if it was not the same.
	againAt time.Time
}

// isSame reports whether a resource is known to be the upstream's. If it is not known, it is
// compared from now on, and reads are passed on meanwhile.
func (s *sameCluster) isSame(gr schema.GroupResource) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.mu.byResource[gr]
	if known != nil && (known.same || time.Now().Before(known.againAt)) {
		return known.same
	}
	s.beginLocked(gr)
	go s.settle(context.Background(), gr)
	return false
}

// beginLocked records that a resource is being compared.
func (s *sameCluster) beginLocked(gr schema.GroupResource) {
	if s.mu.byResource == nil {
		s.mu.byResource = map[schema.GroupResource]*comparison{}
	}
	s.mu.byResource[gr] = &comparison{againAt: time.Now().Add(recompareAfter)}
}

// settle compares a resource and records the result. It reports whether the upstream permits
// the comparison. If not, the resource is taken to be the same.
func (s *sameCluster) settle(ctx context.Context, gr schema.GroupResource) (permitted bool) {
	ctx, cancel := context.WithTimeout(ctx, comparisonTimeout)
	defer cancel()
	err := s.compare(ctx, gr)
	permitted = !errors.Is(err, upstream.ErrForbidden)
	if err != nil && permitted {
		s.warn("etcd is not where the upstream keeps a resource, and its reads are passed on: check --etcd-prefix and --etcd-servers-overrides", "resource", gr.String(), "err", err, "againIn", recompareAfter)
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.byResource[gr].same = true
	return permitted
}

// settleAll compares resources, some at a time, before reads come.
func (s *sameCluster) settleAll(ctx context.Context, all []schema.GroupResource) {
	var group errgroup.Group
	group.SetLimit(comparisonsAtATime)
	var mu sync.Mutex
	var refused []string
	for _, gr := range all {
		s.mu.Lock()
		s.beginLocked(gr)
		s.mu.Unlock()
		group.Go(func() error {
			if !s.settle(ctx, gr) {
				mu.Lock()
				defer mu.Unlock()
				refused = append(refused, gr.String())
			}
			return nil
		})
	}
	_ = group.Wait() // nothing fails
	if len(refused) > 0 {
		slices.Sort(refused)
		s.warn("Cannot compare these resources in etcd with the upstream, and takes them for its own: let the user of --kubeconfig list them", "resources", refused)
	}
}

// compare returns nil if the cache has the upstream's first object, with its UID, at the same
// revision, or if both have no object.
func (s *sameCluster) compare(ctx context.Context, gr schema.GroupResource) error {
	return repeat(ctx, func() error { return s.compareOnce(ctx, gr) })
}

// repeat makes a comparison until it succeeds, up to comparisons times. It ends if the
// upstream forbids the comparison.
func repeat(ctx context.Context, compare func() error) (err error) {
	for range comparisons {
		if err = compare(); err == nil || errors.Is(err, upstream.ErrForbidden) {
			return err
		}
		select {
		case <-time.After(comparisonPause):
		case <-ctx.Done():
			return err
		}
	}
	return err
}

// CheckEtcd returns an error unless the config map that every cluster has is in etcd as the
// upstream has it. It also compares all built-in resources that are answered. It is called
// once caches are loaded. It does nothing without etcd.
func (p *Policy) CheckEtcd(ctx context.Context) error {
	if p.cfg.Resources != nil {
		return nil
	}
	err := repeat(ctx, func() error {
		published, err := p.cfg.Upstream.AuthenticationConfigMap(ctx)
		if err != nil {
			return err
		}
		return p.etcd.compareObject(ctx, schema.GroupResource{Resource: "configmaps"}, published)
	})
	if err != nil {
		return fmt.Errorf("etcd is not that of the upstream: %w: check --etcd-servers, --etcd-prefix and --etcd-servers-overrides, which must be the upstream's", err)
	}
	p.etcd.settleAll(ctx, p.storedResources())
	return nil
}

// storedResources returns the built-in resources that are answered.
func (p *Policy) storedResources() []schema.GroupResource {
	all := map[schema.GroupResource]bool{}
	for gvr, stored := range p.builtIn {
		if p.cfg.Upstream.Serves(gvr) && !p.Excludes(stored.GroupResource()) {
			all[stored.GroupResource()] = true
		}
	}
	return slices.Collect(maps.Keys(all))
}

func (s *sameCluster) compareOnce(ctx context.Context, gr schema.GroupResource) error {
	first, err := s.first(ctx, gr)
	if err != nil {
		return err
	}
	return s.compareObject(ctx, gr, first)
}

// compareObject returns nil if the cache has an object of the upstream, with its UID, at its
// revision. Without the UID, clusters that begin in the same way can be mistaken for each other. If
// want is empty, the cache must have no object.
func (s *sameCluster) compareObject(ctx context.Context, gr schema.GroupResource, want upstream.ObjectVersion) error {
	stored := s.stored(gr)
	if stored == nil {
		return fmt.Errorf("%s are not stored", gr)
	}
	if err := stored.WaitConsistent(ctx); err != nil {
		return err
	}
	snapshot := stored.Resource().Snapshot()
	if want.Name == "" {
		if n := snapshot.Len(); n > 0 {
			return fmt.Errorf("etcd has %d objects, and the upstream none", n)
		}
		return nil
	}
	for e := range snapshot.All(want.Key(), "") {
		if e.Key == want.Key() && e.Revision == want.Revision {
			return compareUID(e, want)
		}
		break
	}
	return fmt.Errorf("the upstream has %s at revision %d, and etcd has not", want.Key(), want.Revision)
}

// compareUID returns nil if the stored bytes contain the UID of an object of the upstream, as each
// storage form does. Bytes that cannot be decoded are not compared.
func compareUID(e *entry.Entry, want upstream.ObjectVersion) error {
	if e.Err != nil {
		return nil
	}
	return e.Read(func(value []byte) error {
		if !bytes.Contains(value, []byte(want.UID)) {
			return fmt.Errorf("etcd has another %s than the upstream: its UID is not %s", want.Key(), want.UID)
		}
		return nil
	})
}
