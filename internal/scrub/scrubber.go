package scrub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/internal/cache"
)

// Config of a Scrubber.
type Config struct {
	// Client reads etcd. It must not be nil.
	Client clientv3.KV
	// Cache is what is checked, and Consistent says how new it is. They must not be nil.
	Cache      *cache.Cache
	Consistent *cache.Consistent
	// Interval is the time between two walks over all objects in memory. It must be
	// positive. Walks that take longer than a 200th of it are further apart.
	Interval time.Duration
	// Pass is the time in which all objects are compared with etcd once. Zero means 10
	// minutes. It takes longer if etcd would have to send more than 1,000 objects a second.
	Pass time.Duration
	// Metrics count what was found. It must not be nil.
	Metrics *Metrics
	// Logger receives what was found. Nil means slog.Default.
	Logger *slog.Logger
}

const (
	defaultPass = 10 * time.Minute
	// pageObjects is the number of objects that are read from etcd at once. minPagePause
	// and maxPagePause bound the time between two pages of a pass.
	pageObjects  = 500
	minPagePause = 500 * time.Millisecond
	maxPagePause = 5 * time.Second
	// walkShare bounds what a walk may take: a 200th of the time, 0.5 % of one processor.
	walkShare = 200
	// etcdTimeout bounds one request to etcd, and the wait until the cache is as new as
	// its answer.
	etcdTimeout = 10 * time.Second
	// maxAttempts is the number of loads after which a resource that still differs is
	// served all the same. Then etcd itself gives two answers, on all servers alike, and
	// nothing would be won if all of them left the balancer.
	maxAttempts = 3
	// minPeerPause is the time after a comparison that another server's digest has caused
	// until any may cause the next one. For the same server it doubles up to maxPeerPause
	// while its digest differs.
	minPeerPause = 30 * time.Second
	maxPeerPause = 10 * time.Minute
	// maxNamed is the number of keys that are logged.
	maxNamed = 10
)

// Scrubber checks one cache. One goroutine reads etcd, one page at a time.
//
// A digest says in an instant whether two caches are equal, and not which one is right, so
// etcd decides. A difference counts when it is found twice, by two reads, because a server
// that leaves the balancer for nothing is a fault of its own.
type Scrubber struct {
	cfg Config
	// suspicions has the name of another server whose digest differs.
	suspicions chan string

	mu struct {
		sync.Mutex
		// wrong are the resources that are being replaced.
		wrong map[string]bool
		// peers has when a server's digest may cause a comparison again, and nextComparison
		// when any may. The former bounds what one wrong server costs, the latter what many
		// Leases cost.
		peers          map[string]peerPause
		nextComparison time.Time
	}
}

type peerPause struct {
	until time.Time
	next  time.Duration
}

// New makes a Scrubber. It does nothing before Run.
func New(cfg Config) *Scrubber {
	if cfg.Pass == 0 {
		cfg.Pass = defaultPass
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	s := &Scrubber{cfg: cfg, suspicions: make(chan string, 1)}
	s.mu.wrong, s.mu.peers = map[string]bool{}, map[string]peerPause{}
	return s
}

// Check returns an error while objects are known to be wrong. It is a check of readiness.
func (s *Scrubber) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.wrong) == 0 {
		return nil
	}
	return fmt.Errorf("the cache differs from etcd and is being loaded anew: %s", strings.Join(slices.Sorted(maps.Keys(s.mu.wrong)), ", "))
}

func (s *Scrubber) setWrong(r *cache.Resource, wrong bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name := r.GroupResource().String(); wrong {
		s.mu.wrong[name] = true
	} else {
		delete(s.mu.wrong, name)
	}
}

// Observe compares the digest that another server had at a revision. If it differs, all
// keys are compared with etcd soon. It does not wait.
func (s *Scrubber) Observe(peer string, revision int64, theirs cache.Digest) {
	ours, err := s.cfg.Cache.DigestAt(revision)
	if err != nil {
		return // the next digest is of a newer revision
	}
	if ours == theirs {
		s.forgive(peer)
		return
	}
	if !s.mayCompare(peer, time.Now()) {
		return
	}
	s.cfg.Logger.Warn("The cache of another server over the same etcd has another digest; all keys are compared with etcd",
		"peer", peer, "revision", revision, "digest", ours.String(), "peerDigest", theirs.String())
	select {
	case s.suspicions <- peer:
	default: // a comparison is about to begin anyway
	}
}

func (s *Scrubber) forgive(peer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.peers, peer)
}

// mayCompare reports whether a peer may cause a comparison now.
func (s *Scrubber) mayCompare(peer string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.mu.peers, func(_ string, p peerPause) bool { return now.Sub(p.until) > 2*maxPeerPause })
	p := s.mu.peers[peer]
	if now.Before(p.until) || now.Before(s.mu.nextComparison) {
		return false
	}
	s.mu.nextComparison = now.Add(minPeerPause)
	p.next = min(max(minPeerPause, 2*p.next), maxPeerPause)
	p.until = now.Add(p.next)
	s.mu.peers[peer] = p
	return true
}

// Run checks until the context ends, and returns its error.
func (s *Scrubber) Run(ctx context.Context) error {
	if err := s.cfg.Cache.Progress().Wait(ctx, 1); err != nil {
		return err
	}
	pass := &pass{}
	walk, page := time.NewTimer(s.cfg.Interval), time.NewTimer(minPagePause)
	defer walk.Stop()
	defer page.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-walk.C:
			took := s.walk(ctx)
			walk.Reset(max(s.cfg.Interval, walkShare*took))
		case <-page.C:
			s.comparePage(ctx, pass)
			page.Reset(s.pagePause())
		case <-s.suspicions:
			s.compareAll(ctx)
		}
	}
}

// walk compares the objects in memory with the digests. It returns the time that it took.
func (s *Scrubber) walk(ctx context.Context) (took time.Duration) {
	for _, r := range s.resources() {
		began := time.Now()
		right := r.HoldsDigest()
		if took += time.Since(began); right || ctx.Err() != nil {
			continue
		}
		// Which objects are wrong, only etcd can say. Its answer does not decide: the
		// digest is wrong as well.
		found, err := s.compareResource(ctx, r)
		if err != nil {
			s.cfg.Logger.Warn("Could not compare objects with etcd", "resource", r.GroupResource().String(), "err", err)
		}
		s.repair(ctx, r, found)
	}
	return took
}

// compareAll compares the keys of all resources with etcd.
func (s *Scrubber) compareAll(ctx context.Context) {
	wrong := 0
	for _, r := range s.resources() {
		found, err := s.compareResource(ctx, r)
		if err != nil && ctx.Err() == nil && !errors.Is(err, cache.ErrExpired) {
			s.cfg.Logger.Warn("Could not compare objects with etcd", "resource", r.GroupResource().String(), "err", err)
		}
		if len(found) > 0 {
			wrong++
			s.repair(ctx, r, found)
		}
	}
	if wrong == 0 && ctx.Err() == nil {
		s.cfg.Logger.Info("All keys are those of etcd; the other server is wrong")
	}
}

// resources returns all resources, the smallest first, so that a fault is found soon.
func (s *Scrubber) resources() []*cache.Resource {
	all := s.cfg.Cache.Resources()
	sizes := make(map[*cache.Resource]int, len(all))
	for _, r := range all {
		sizes[r] = r.Snapshot().Len()
	}
	slices.SortFunc(all, func(a, b *cache.Resource) int {
		if sizes[a] != sizes[b] {
			return sizes[a] - sizes[b]
		}
		return strings.Compare(a.Prefix(), b.Prefix())
	})
	return all
}
