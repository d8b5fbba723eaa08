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
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/tier/cache"
)

// Config configures Scrubber.
type Config struct {
	// Client reads etcd. It must not be nil.
	Client clientv3.KV
	// Cache is what is checked. It must not be nil.
	Cache *cache.Cache
	// Consistent tells how new Cache is. It must not be nil.
	Consistent *cache.Consistent
	// Prefix begins all keys of the cache. It must not be empty.
	Prefix string
	// OthersReady reports whether another server is known that takes clients. While
	// none is known, ReadyError returns nil. A nil OthersReady means that none is ever known.
	OthersReady func() bool
	// Interval is the time between two walks over all objects in memory. It must be
	// positive. Walks that take longer than a 200th of the interval are further apart.
	Interval time.Duration
	// Pass is the time in which all objects are compared with etcd once. Zero means 10
	// minutes. A pass takes longer if etcd would have to send more than 1,000 objects a
	// second, and less for few objects.
	Pass time.Duration
	// Metrics count what was found. It must not be nil.
	Metrics *Metrics
	// Logger receives what was found. Nil means slog.Default.
	Logger *slog.Logger
}

const (
	defaultPass = 10 * time.Minute
	// pageObjects is the number of objects that are read from etcd in one request. minPagePause and
	// maxPagePause bound the time between two turns of a pass. turnRequests bounds the small
	// resources that share a turn.
	pageObjects  = 500
	turnRequests = 50
	minPagePause = 500 * time.Millisecond
	maxPagePause = 5 * time.Second
	// walkShare bounds what a walk may take: a 200th of the time, 0.5 % of one processor.
	walkShare = 200
	// etcdTimeout bounds one request to etcd, and the wait until the cache is as new as
	// its answer.
	etcdTimeout = 10 * time.Second
	// minPeerPause is the time after another server's digest has caused a comparison until
	// any digest may cause the next one. For the digests of that server the time doubles up to
	// maxPeerPause while they differ.
	minPeerPause = 30 * time.Second
	maxPeerPause = 10 * time.Minute
	// maxNamed is the number of keys that are logged. compareResource ends once it has found as
	// many.
	maxNamed = 10
)

// Scrubber checks one cache. One goroutine reads etcd, one page at a time.
//
// A digest says in an instant whether two caches are equal, and not which one is right, so
// etcd decides. A page of keys counts as different once two reads in a row have found
// differences. A server that leaves its load balancer without a reason would be a fault of its
// own.
type Scrubber struct {
	cfg Config
	// suspicions has the name of another server whose digest differs. It wakes Run.
	suspicions chan string

	mu struct {
		sync.Mutex
		// wrong has the names of the resources that repair works on.
		wrong map[string]bool
		// peers has, by name, when the digest of a server may cause a comparison again.
		// nextComparison is when any digest may. The pause by server bounds what one wrong
		// server costs, and nextComparison bounds what many Leases cost.
		peers          map[string]doublingPause
		nextComparison time.Time
		// givenUp has, by prefix, until when a resource that could not be repaired is left
		// alone.
		givenUp map[string]doublingPause
	}
}

// New makes a Scrubber. It starts nothing.
func New(cfg Config) *Scrubber {
	if cfg.Pass == 0 {
		cfg.Pass = defaultPass
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	s := &Scrubber{cfg: cfg, suspicions: make(chan string, 1)}
	s.mu.wrong, s.mu.peers, s.mu.givenUp = map[string]bool{}, map[string]doublingPause{}, map[string]doublingPause{}
	return s
}

// ReadyError returns an error while objects are known to be wrong and another server is
// known to be ready. It is for the readiness of the server. Without another server clients
// have nowhere to go, and most objects are right.
func (s *Scrubber) ReadyError() error {
	err := s.CacheError()
	if err == nil || s.cfg.OthersReady == nil || !s.cfg.OthersReady() {
		return nil
	}
	return err
}

// CacheError returns an error while objects are known to be wrong. It decides what servers tell
// each other about their readiness. If ReadyError did, two wrong servers would take turns at
// being ready.
func (s *Scrubber) CacheError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.wrong) == 0 {
		return nil
	}
	return fmt.Errorf("the cache differs from etcd and is being loaded again: %s", strings.Join(slices.Sorted(maps.Keys(s.mu.wrong)), ", "))
}

func (s *Scrubber) setWrong(r *cache.Resource, wrong bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name := nameOf(r).String(); wrong {
		s.mu.wrong[name] = true
	} else {
		delete(s.mu.wrong, name)
	}
}

// Observe compares the digest that peer had at revision, unless a pause of mu forbids it. If the
// digest differs, Run soon compares all keys with etcd. Observe does not wait. Anyone who may
// write Leases chooses the arguments, so the pauses come before the work.
func (s *Scrubber) Observe(peer string, revision int64, theirs cache.Digest) {
	if !s.mayCompare(peer, time.Now()) {
		return
	}
	ours, err := s.cfg.Cache.DigestAt(revision)
	if err != nil {
		return // the next digest is of a newer revision
	}
	s.judge(peer, ours == theirs, time.Now())
	if ours == theirs {
		return
	}
	s.cfg.Logger.Warn("The cache of another server over the same etcd has another digest; all keys are compared with etcd",
		"peer", peer, "revision", revision, "digest", ours.String(), "peerDigest", theirs.String())
	select {
	case s.suspicions <- peer:
	default: // a comparison is about to begin in any case
	}
}

// mayCompare reports whether a peer may cause a comparison now.
func (s *Scrubber) mayCompare(peer string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.mu.peers, func(_ string, p doublingPause) bool { return now.Sub(p.until) > 2*maxPeerPause })
	return !now.Before(s.mu.peers[peer].until) && !now.Before(s.mu.nextComparison)
}

// judge records whether a peer's digest was equal. A digest that was not equal sets when
// digests may cause the next comparison.
func (s *Scrubber) judge(peer string, equal bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if equal {
		delete(s.mu.peers, peer)
		return
	}
	s.mu.nextComparison = now.Add(minPeerPause)
	s.mu.peers[peer] = s.mu.peers[peer].longer(now, minPeerPause, maxPeerPause)
}

// Run waits for the first load, and then checks until the context ends. It returns the context's
// error.
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
			s.compareTurn(ctx, pass)
			page.Reset(s.pagePause())
		case <-s.suspicions:
			s.compareAll(ctx)
		}
	}
}

// walk compares the objects in memory with the digests, and repairs resources that differ. It
// returns the time that it spent on the objects in memory.
func (s *Scrubber) walk(ctx context.Context) (took time.Duration) {
	for _, r := range s.resources() {
		began := time.Now()
		right := r.HoldsDigest()
		if took += time.Since(began); right || ctx.Err() != nil {
			continue
		}
		if s.isGivenUp(r, time.Now()) {
			s.repair(ctx, r, nil, false) // it adds to Metrics, and does nothing else
			continue
		}
		// Which objects are wrong, only etcd can say. Its answer does not decide: the
		// digest is wrong as well.
		found, err := s.compareResource(ctx, r, false)
		if err != nil {
			s.cfg.Logger.Warn("Could not compare objects with etcd", "resource", nameOf(r).String(), "err", err)
		}
		s.repair(ctx, r, found, false)
	}
	return took
}

// compareAll compares the keys of all resources with etcd, and repairs resources that differ. It
// leaves out resources that are given up.
func (s *Scrubber) compareAll(ctx context.Context) {
	wrong, uncompared := 0, 0
	for _, r := range s.resources() {
		if s.isGivenUp(r, time.Now()) {
			uncompared++
			continue
		}
		found, err := s.compareResource(ctx, r, false)
		if err != nil {
			uncompared++
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, cache.ErrExpired) {
			s.cfg.Logger.Warn("Could not compare objects with etcd", "resource", nameOf(r).String(), "err", err)
		}
		if len(found) > 0 {
			wrong++
			s.repair(ctx, r, found, false)
		}
	}
	switch {
	case ctx.Err() != nil || wrong > 0:
	case uncompared > 0:
		s.cfg.Logger.Info("No wrong key was found, but not all keys could be compared with etcd", "resources", uncompared)
	default:
		s.cfg.Logger.Info("All keys are as in etcd; the other server is wrong")
	}
}

// all returns all resources, and the keys that belong to no resource as one more.
func (s *Scrubber) all() []*cache.Resource {
	return append(s.cfg.Cache.Resources(), s.cfg.Cache.UnclaimedKeys())
}

// nameOf names a resource in logs and metrics.
func nameOf(r *cache.Resource) schema.GroupResource {
	if r.Prefix() == "" {
		return schema.GroupResource{Resource: "unclaimed"}
	}
	return r.GroupResource()
}

// resources returns what all returns, the smallest first, so that a fault is found soon.
func (s *Scrubber) resources() []*cache.Resource {
	all := s.all()
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
