package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/rounds"
)

// ContentsSource is the source of one resource that can be read as a whole.
type ContentsSource interface {
	RevisionSource
	// Contents reads the keys and the revisions of all objects, and no values, at the
	// source's newest revision. What holds of Revision holds of that one.
	Contents(context.Context) (objects []feed.Object, revision int64, err error)
	// ProgressWithin is how long the source takes at most to tell of its progress. It is 0
	// if that is not known.
	ProgressWithin() time.Duration
	// Contradict tells that the cache has other objects at a revision than the source.
	Contradict(error)
}

// Prover proves that the cache of one resource is as new as a read without a resource version
// asks. It is for sources that tell of their progress seldom, as API servers do. A read for
// which no proof is at hand is immediately left to another server: ErrUnproven.
//
//	read ──► progress passes the newest revision in time, mostly ──► one question, then a short wait
//	     ──► many reads of few objects ──► Contents, once for all that came before, and compared
//	     ──► otherwise ──► ErrUnproven
//
// A state that is equal to Contents need not be the cache's state at that revision. An object may have
// been made and deleted before, and the cache has not received these events yet. So the read is
// answered with that very state, and Progress stays where it is.
type Prover struct {
	cache      *Cache
	consistent *Consistent
	source     ContentsSource
	forecast   forecast
	demand     demand
	contents   *rounds.Question[*Snapshot]
	counts     struct{ progress, contents, none atomic.Int64 }
}

// ProofCounts are numbers of reads: reads that progress of the source has proven, reads that its
// contents have proven, and reads that were not proven.
type ProofCounts struct{ Progress, Contents, None int64 }

// Counts returns how many reads were proven since the start, and how.
func (p *Prover) Counts() ProofCounts {
	return ProofCounts{Progress: p.counts.progress.Load(), Contents: p.counts.contents.Load(), None: p.counts.none.Load()}
}

const (
	// askTimeout bounds the question for the newest revision. nearProof is how long a read waits for
	// progress after the answer, if the source does not say when that comes.
	askTimeout = 300 * time.Millisecond
	nearProof  = 20 * time.Millisecond
	// contentsTimeout bounds a reading of all keys. Reads that wait for it would have been
	// answered by then.
	contentsTimeout = 2 * time.Second
	// contentsPatience is how long the cache may take to get what the source has said to have.
	contentsPatience = 100 * time.Millisecond
	// maxContents bounds the objects, in bytes, that are read as a whole.
	maxContents = 4 << 20
)

// NewProver makes a Prover of a cache that has one resource.
func NewProver(c *Cache, consistent *Consistent, source ContentsSource) *Prover {
	p := &Prover{cache: c, consistent: consistent, source: source}
	p.contents = rounds.New(rounds.Config[*Snapshot]{
		Ask: p.readContents, Timeout: contentsTimeout, Gather: func() time.Duration { return p.demand.window(time.Now()) },
	})
	return p
}

// Prove returns once it is proven that the cache has every write that was acknowledged before the
// call. If it returns a state, then only that state is proven. examined is the number of objects
// that the read would have the source examine. The error wraps ErrUnproven or ErrNotReady.
func (p *Prover) Prove(ctx context.Context, r *Resource, examined int) (*Snapshot, error) {
	state, err := p.proveOnce(ctx, r, examined)
	switch {
	case err != nil:
		p.counts.none.Add(1)
	case state != nil:
		p.counts.contents.Add(1)
	default:
		p.counts.progress.Add(1)
	}
	return state, err
}

// proveOnce does Prove's work without counting it.
func (p *Prover) proveOnce(ctx context.Context, r *Resource, examined int) (*Snapshot, error) {
	if err := p.cache.Ready(); err != nil {
		return nil, err
	}
	now := time.Now()
	gathered := p.demand.add(now, requestWeight+examined)
	switch {
	case p.forecast.isNear():
		if err := p.waitNear(ctx, p.forecast.patience(p.progressWithin())); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnproven, err)
		}
		return nil, nil
	case r.Snapshot().isWorthReading(gathered):
		state, err := p.contents.Answer(ctx)
		if err == nil && state == nil {
			err = errNoProgress
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnproven, err)
		}
		return state, nil
	case p.forecast.isDue(now):
		go p.probe()
	}
	return nil, fmt.Errorf("%w: %w", ErrUnproven, errNoProgress)
}

// isWorthReading reports whether reading all keys of a state costs a source less than reads of a weight.
func (s Snapshot) isWorthReading(gathered float64) bool {
	return gathered > float64(requestWeight+s.Len()) && s.Bytes < maxContents
}

// Patience returns how long a read waits for a revision that it names: most, or less if no
// progress is likely to come.
func (p *Prover) Patience(most time.Duration) time.Duration {
	if p.forecast.isNear() {
		return most
	}
	return min(most, nearProof)
}

// errNoProgress says why a read is not proven.
var errNoProgress = errors.New("the source does not tell of its progress in time")

// progressWithin returns the longest that progress may take to count as near.
func (p *Prover) progressWithin() time.Duration { return nearProof + p.source.ProgressWithin() }

// waitNear waits until the cache has passed the source's newest revision: for at most
// askTimeout until the source answers, and patience after that.
func (p *Prover) waitNear(ctx context.Context, patience time.Duration) error {
	asked, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	revision, err := p.consistent.Revision(asked)
	answered := time.Now()
	if err == nil {
		err = p.reach(ctx, revision, patience)
	}
	if ctx.Err() == nil {
		p.forecast.note(err == nil, time.Since(answered))
	}
	return err
}

// reach waits until the cache has reached revision, for at most patience.
func (p *Prover) reach(ctx context.Context, revision int64, patience time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errNoProgress)
	defer cancel()
	if p.cache.Progress().Wait(ctx, revision) != nil {
		return context.Cause(ctx)
	}
	return nil
}

// probe finds out whether a proof is near again. No read waits for it. Consistent makes the source
// send its progress, so that the next read finds the cache up to date if nothing is written.
func (p *Prover) probe() {
	ctx, cancel := context.WithTimeout(context.Background(), consistentTimeout)
	defer cancel()
	_ = p.waitNear(ctx, p.progressWithin())
}

// readContents reads all keys, and returns a state of the cache that is equal to them.
// Once the cache has passed their revision, it returns the newest state. It returns nil
// if neither comes within contentsPatience, or if the cache had other objects.
func (p *Prover) readContents(ctx context.Context) (*Snapshot, error) {
	objects, revision, err := p.source.Contents(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(objects, func(a, b feed.Object) int { return cmp.Compare(string(a.Key), string(b.Key)) })
	ctx, cancel := context.WithTimeout(ctx, contentsPatience)
	defer cancel()
	for {
		reached, moved := p.cache.Progress().Watch()
		resources := p.cache.Resources()
		if len(resources) != 1 || p.cache.Ready() != nil {
			return nil, ErrNotReady
		}
		r := resources[0]
		if reached >= revision {
			return p.compareAt(r, revision, objects), nil
		}
		if state := r.Snapshot(); r.isState(&state, objects) {
			state.Revision = max(state.Revision, revision)
			return &state, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// compareAt returns the newest state of a cache that has passed the revision at which the source had
// objects. If the cache had others at that revision, it tells the source and returns nil.
func (p *Prover) compareAt(r *Resource, revision int64, objects []feed.Object) *Snapshot {
	newest := r.Snapshot()
	if then, err := p.cache.snapshotAt(r, revision); err == nil && !r.isState(&then, objects) {
		p.source.Contradict(fmt.Errorf("the cache has other objects of %s at revision %d than its source", r.GroupResource(), revision))
		return nil
	}
	return &newest
}

// isState reports whether a state has the objects of some keys, at their revisions, and no
// others. The keys are in their order.
func (r *Resource) isState(s *Snapshot, objects []feed.Object) bool {
	if s.Len() != len(objects) {
		return false
	}
	prefix := len(r.spec.Prefix)
	for e := range s.All("", "") {
		o := &objects[0]
		if e.Revision != o.Revision || e.Key != string(o.Key[prefix:]) {
			return false
		}
		objects = objects[1:]
	}
	return true
}
