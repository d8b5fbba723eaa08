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
	// Contents reads the keys and the revisions of all objects, and no values. Every write
	// that was acknowledged before the call is at or below the revision that it returns.
	Contents(context.Context) (objects []feed.Object, revision int64, err error)
	// ProgressWithin is how long the source takes at most to tell of its progress. It is 0
	// if that is not known.
	ProgressWithin() time.Duration
	// Contradict tells the source that the cache has other objects at some revision. The
	// error says which.
	Contradict(error)
}

// Prover proves that the cache of one resource is as new as a read without a resource version
// asks. It is for sources that tell of their progress seldom, as API servers do. A read that
// it cannot prove soon is left to another server: ErrUnproven.
//
//	read ──► progress came soon the last times ──► ask for the newest revision, then wait briefly
//	     ──► many reads of few objects ──► Contents, once for all reads that gathered, compared
//	     ──► otherwise ──► ErrUnproven
//
// A state that is equal to Contents need not be the cache's state at that revision. An object
// may have been made and deleted before, and the cache may not have received these events yet.
// So the read is answered with that very state, and Progress stays where it is.
type Prover struct {
	cache      *Cache
	consistent *Consistent
	source     ContentsSource
	forecast   forecast
	demand     demand
	watchLists demand
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
	// askTimeout bounds a read's wait for the newest revision. nearProof is how long it then
	// waits for progress at most, beyond the time that the source says that progress takes.
	askTimeout = 300 * time.Millisecond
	nearProof  = 20 * time.Millisecond
	// contentsTimeout bounds a reading of all keys. By then another server would have
	// answered the reads that wait for it.
	contentsTimeout = 2 * time.Second
	// contentsPatience is how long the cache may take to get what Contents has returned.
	contentsPatience = 100 * time.Millisecond
	// maxContents is the size of a resource's values from which Contents is not asked.
	maxContents = 4 << 20
	// costlyWatchLists is the weight of a second's watch-lists from which each should wait
	// for a proof. A stock server needs some 15 ms of CPU for them.
	costlyWatchLists = 300
)

// NewProver makes a Prover of a cache that has one resource.
func NewProver(c *Cache, consistent *Consistent, source ContentsSource) *Prover {
	p := &Prover{cache: c, consistent: consistent, source: source}
	p.contents = rounds.New(rounds.Config[*Snapshot]{
		Ask: p.readContents, Timeout: contentsTimeout, Gather: func() time.Duration { return p.demand.window(time.Now()) },
	})
	return p
}

// Prove returns once it is proven that the cache has every write that was acknowledged before
// the call. If it returns a state, then only that state is proven. examined is the number of
// objects that the source would examine for the read. The error is or wraps ErrUnproven or
// ErrNotReady.
func (p *Prover) Prove(ctx context.Context, r *Resource, examined int) (*Snapshot, error) {
	state, err := p.proveOnce(ctx, r, examined)
	p.count(state, err)
	return state, err
}

// ProveProgress is Prove by progress alone. It is for a watch, which goes on from the cache's
// revision.
func (p *Prover) ProveProgress(ctx context.Context) error {
	err := p.cache.Ready()
	if err == nil {
		err = p.awaitProgress(ctx, time.Now())
	}
	p.count(nil, err)
	return err
}

// AddWatchList records a watch-list that examines objects. It reports whether the watch-lists
// of the last second would cost the source much, so that this one should wait for a proof.
func (p *Prover) AddWatchList(examined int) (costly bool) {
	weight, _ := p.watchLists.add(time.Now(), examined)
	return weight > costlyWatchLists
}

// count counts a read.
func (p *Prover) count(state *Snapshot, err error) {
	switch {
	case err != nil:
		p.counts.none.Add(1)
	case state != nil:
		p.counts.contents.Add(1)
	default:
		p.counts.progress.Add(1)
	}
}

// proveOnce does Prove's work without counting it.
func (p *Prover) proveOnce(ctx context.Context, r *Resource, examined int) (*Snapshot, error) {
	if err := p.cache.Ready(); err != nil {
		return nil, err
	}
	now := time.Now()
	_, gathered := p.demand.add(now, examined)
	if p.forecast.isNear() || !r.Snapshot().isWorthReading(gathered) {
		return nil, p.awaitProgress(ctx, now)
	}
	state, err := p.contents.Answer(ctx)
	if err == nil && state == nil {
		err = errNoProgress
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnproven, err)
	}
	return state, nil
}

// awaitProgress waits for progress if it is near. Otherwise it probes now and then whether it
// is.
func (p *Prover) awaitProgress(ctx context.Context, now time.Time) error {
	if p.forecast.isNear() {
		if err := p.waitNear(ctx, p.forecast.patience(p.progressWithin())); err != nil {
			return fmt.Errorf("%w: %w", ErrUnproven, err)
		}
		return nil
	}
	if p.forecast.isDue(now) {
		go p.probe()
	}
	return fmt.Errorf("%w: %w", ErrUnproven, errNoProgress)
}

// isWorthReading reports whether reading all keys of a state costs a source less than reads
// of the weight gathered, and the values are small enough.
func (s Snapshot) isWorthReading(gathered float64) bool {
	return gathered > float64(requestWeight+s.Len()) && s.Bytes < maxContents
}

// Patience returns how long a read should wait for a revision that it names: most, or at most
// nearProof if progress is not expected soon.
func (p *Prover) Patience(most time.Duration) time.Duration {
	if p.forecast.isNear() {
		return most
	}
	return min(most, nearProof)
}

var errNoProgress = errors.New("the source does not tell of its progress in time")

// progressWithin returns the longest that progress may take to count as near.
func (p *Prover) progressWithin() time.Duration { return nearProof + p.source.ProgressWithin() }

// waitNear waits until the cache has reached the source's newest revision: for at most
// askTimeout until the source answers, and patience after that. It notes in the forecast
// whether progress came, unless ctx has ended.
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

// probe finds out whether progress comes soon again. No read waits for the probe. Consistent
// asks the source for progress, so that the next read finds the cache up to date if nothing is
// written.
func (p *Prover) probe() {
	ctx, cancel := context.WithTimeout(context.Background(), consistentTimeout)
	defer cancel()
	_ = p.waitNear(ctx, p.progressWithin())
}

// readContents reads all keys, and returns a state of the cache that is equal to them.
// Once the cache has reached their revision, it returns compareAt. It returns nil if neither
// comes within contentsPatience.
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

// compareAt returns the newest state of a cache that has reached the revision at which the
// source had objects. If the cache had others at that revision, it tells the source and
// returns nil. It does not compare if the log does not reach back to the revision.
func (p *Prover) compareAt(r *Resource, revision int64, objects []feed.Object) *Snapshot {
	newest := r.Snapshot()
	if then, err := p.cache.snapshotAt(r, revision); err == nil && !r.isState(&then, objects) {
		p.source.Contradict(fmt.Errorf("the cache has other objects of %s at revision %d than its source", r.GroupResource(), revision))
		return nil
	}
	return &newest
}

// isState reports whether a state has exactly the keys and revisions of objects, which are in
// key order.
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
