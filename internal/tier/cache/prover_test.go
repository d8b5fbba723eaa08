package cache_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/feed"
	"github.com/millrace/millrace/internal/tier/cache"
)

// quietSource is a source that tells of no progress by itself.
type quietSource struct {
	mu sync.Mutex
	// revision is the newest one, and objects are those at it.
	revision int64
	objects  []feed.Object
	// asked and read count the questions for the revision and for the contents.
	asked, read  int
	contradicted error
	// answering is called before the contents are answered.
	answering func()
	// within is what ProgressWithin says.
	within time.Duration
}

func (s *quietSource) Revision(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.revision, nil
}

func (s *quietSource) RequestProgress(context.Context) error { return nil }

func (s *quietSource) ProgressWithin() time.Duration { return s.within }

func (s *quietSource) Contents(context.Context) ([]feed.Object, int64, error) {
	s.mu.Lock()
	s.read++
	objects, revision, answering := append([]feed.Object(nil), s.objects...), s.revision, s.answering
	s.mu.Unlock()
	if answering != nil {
		answering()
	}
	return objects, revision, nil
}

func (s *quietSource) Contradict(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.contradicted = err
}

// set changes the source, as a write elsewhere does, or looks at it.
func (s *quietSource) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// counts returns how often the source was asked and read, and what it was told.
func (s *quietSource) counts() (asked, read int, contradicted error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, s.read, s.contradicted
}

// provedCache is a cache of one resource at revision 10 and its Prover.
type provedCache struct {
	*cache.Cache
	*cache.Prover
	source   *quietSource
	resource *cache.Resource
}

const provedObjects = 100

// inQuiet runs a test with a source that is at a revision and has what the cache has.
func inQuiet(t *testing.T, revision int64, test func(*testing.T, *provedCache)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCache(cache.Config{})
		p := &provedCache{Cache: c, source: &quietSource{revision: revision}, resource: c.Register(cache.Spec{Prefix: "/things/"})}
		for i := range provedObjects {
			p.source.objects = append(p.source.objects, object(fmt.Sprintf("/things/%03d", i), "x", 5))
		}
		load(t, c, 10, p.source.objects...)
		p.Prover = cache.NewProver(c, cache.NewConsistent(c, p.source), p.source)
		test(t, p)
		<-time.After(10 * time.Second) // requests for progress go on for as long
	})
}

// prove proves a read of one object.
func (p *provedCache) prove(t *testing.T) (*cache.Snapshot, error) {
	return p.Prove(t.Context(), p.resource, 1)
}

// giveUpHope has the prover learn that no progress comes.
func (p *provedCache) giveUpHope(t *testing.T) {
	for range 3 {
		if _, err := p.prove(t); !errors.Is(err, cache.ErrUnproven) {
			t.Fatalf("a read behind its source: %v, want %v", err, cache.ErrUnproven)
		}
	}
}

// crowd makes many reads, each a millisecond after the one before. Once there are many, it calls
// one for each that comes.
func (p *provedCache) crowd(t *testing.T, one func()) {
	var reads sync.WaitGroup
	for i := range 3000 {
		<-time.After(time.Millisecond)
		reads.Go(func() {
			if i < 1000 {
				_, _ = p.prove(t)
			} else {
				one()
			}
		})
	}
	reads.Wait()
}

func TestProofAtHand(t *testing.T) {
	inQuiet(t, 10, func(t *testing.T, p *provedCache) {
		for range 100 {
			if state, err := p.prove(t); state != nil || err != nil {
				t.Fatalf("a read at its source's revision: %v, %v, want the cache's state", state, err)
			}
		}
		if got, want := p.Counts(), (cache.ProofCounts{Progress: 100}); got != want {
			t.Errorf("counted %+v, want %+v", got, want)
		}
	})
}

// TestNoWaitInVain: once no proof has come in time, reads are left to others at once, and the
// source is asked seldom whether that has changed. When it has, reads are answered again.
func TestNoWaitInVain(t *testing.T) {
	inQuiet(t, 11, func(t *testing.T, p *provedCache) {
		p.giveUpHope(t)
		p.source.set(func() { p.source.asked = 0 })
		began := time.Now()
		for range 600 {
			asked := time.Now()
			if _, err := p.prove(t); !errors.Is(err, cache.ErrUnproven) || !time.Now().Equal(asked) {
				t.Fatalf("a read has waited %v and got %v", time.Since(asked), err)
			}
			<-time.After(100 * time.Millisecond)
		}
		if asked, _, _ := p.source.counts(); asked > 8 {
			t.Errorf("the source was asked %d times in %v", asked, time.Since(began))
		}
		p.Progressed(11)
		for range 600 {
			if _, err := p.prove(t); err == nil {
				return
			}
			<-time.After(100 * time.Millisecond)
		}
		t.Error("no read is answered, though the cache is at the source's revision")
	})
}

// TestWaitAsUsual: a source that may take long to tell of its progress has told of it at once so
// far. When it does not, a read waits for a short time, not for the longest.
func TestWaitAsUsual(t *testing.T) {
	inQuiet(t, 10, func(t *testing.T, p *provedCache) {
		p.source.within = time.Second
		for range 10 {
			if _, err := p.prove(t); err != nil {
				t.Fatal(err)
			}
		}
		p.source.set(func() { p.source.revision = 11 })
		asked := time.Now()
		if _, err := p.prove(t); !errors.Is(err, cache.ErrUnproven) || time.Since(asked) > 20*time.Millisecond {
			t.Errorf("a read has waited %v and got %v", time.Since(asked), err)
		}
	})
}

// TestCrowdIsProvenAtOnce: many reads of a few objects are answered by few readings of the keys,
// each by one that began after it.
func TestCrowdIsProvenAtOnce(t *testing.T) {
	inQuiet(t, 11, func(t *testing.T, p *provedCache) {
		p.giveUpHope(t)
		p.source.set(func() { p.source.answering = func() { <-time.After(3 * time.Millisecond) } })
		p.crowd(t, func() {
			var came int64
			p.source.set(func() { p.source.revision++; came = p.source.revision })
			state, err := p.prove(t)
			switch {
			case err != nil || state == nil:
				t.Errorf("a read of the crowd: %v, %v", state, err)
			case state.Revision < came || state.Len() != provedObjects:
				t.Errorf("a read at revision %d got a state of %d with %d objects", came, state.Revision, state.Len())
			}
		})
		if got := p.Counts(); got.Contents < 2000 || got.Progress != 0 || got.None < 3 || got.Contents+got.None != 3003 {
			t.Errorf("of 3,003 reads %+v were counted", got)
		}
		if _, read, _ := p.source.counts(); read > 60 {
			t.Errorf("the keys were read %d times in 2 s for 1,000 reads a second", read)
		}
		if p.Progress().Revision() != 10 {
			t.Errorf("the cache says to have reached revision %d, of which nobody told it", p.Progress().Revision())
		}
	})
}

// TestOnlyTheComparedStateIsProven: an object that was made and deleted is in no reading of the
// keys. The cache is told of it later, and a read must not find it there.
func TestOnlyTheComparedStateIsProven(t *testing.T) {
	inQuiet(t, 13, func(t *testing.T, p *provedCache) {
		p.giveUpHope(t)
		proven := make(chan *cache.Snapshot, 3000)
		p.crowd(t, func() {
			if state, err := p.prove(t); err == nil && state != nil {
				proven <- state
			}
		})
		if len(proven) == 0 {
			t.Fatal("no read was proven")
		}
		p.Apply(t.Context(), apply(put("/things/gone", "x", 12)))
		for range len(proven) {
			if (<-proven).Get("gone") != nil {
				t.Fatal("a read finds an object that was deleted before")
			}
		}
		if state, err := p.prove(t); err == nil && (state == nil || state.Get("gone") != nil) {
			t.Errorf("a read behind the event of an object that was deleted since: %v", state)
		}
		p.Apply(t.Context(), apply(remove("/things/gone", 13)))
	})
}

// TestContentsThatDiffer: the cache has to get what the source says to have.
func TestContentsThatDiffer(t *testing.T) {
	newer := object("/things/new", "x", 12)
	inQuiet(t, 12, func(t *testing.T, p *provedCache) {
		p.giveUpHope(t)
		p.source.set(func() { p.source.objects = append(p.source.objects, newer) })
		var proven, unproven int
		var mu sync.Mutex
		p.crowd(t, func() {
			state, err := p.prove(t)
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, cache.ErrUnproven) {
				unproven++
				if unproven == 500 {
					p.Apply(t.Context(), apply(newer))
				}
				return
			}
			if proven++; err != nil || unproven < 500 || state == nil || state.Get("new") == nil {
				t.Errorf("after %d reads without proof: %v, %v", unproven, state, err)
			}
		})
		if proven == 0 || unproven < 500 {
			t.Errorf("%d reads were proven and %d not", proven, unproven)
		}
	})
}

// TestContradiction: a cache that has passed the source's revision with other objects is wrong.
func TestContradiction(t *testing.T) {
	inQuiet(t, 12, func(t *testing.T, p *provedCache) {
		p.giveUpHope(t)
		p.source.set(func() {
			p.source.objects[0].Revision = 6
			p.source.answering = func() { p.Progressed(12) }
		})
		p.crowd(t, func() {
			state, err := p.prove(t)
			if _, _, contradicted := p.source.counts(); contradicted == nil && err == nil {
				t.Errorf("a read of a wrong cache is proven: %v", state)
			}
		})
		if _, _, contradicted := p.source.counts(); contradicted == nil {
			t.Error("the source was not told")
		}
	})
}

// TestWatchesAreProvenByProgress: a watch goes on from the cache's revision, so a comparison of
// the keys proves nothing for it.
func TestWatchesAreProvenByProgress(t *testing.T) {
	inQuiet(t, 11, func(t *testing.T, p *provedCache) {
		p.giveUpHope(t)
		p.source.set(func() { p.source.answering = func() { <-time.After(3 * time.Millisecond) } })
		p.crowd(t, func() {
			began := time.Now()
			if err := p.ProveProgress(t.Context()); !errors.Is(err, cache.ErrUnproven) || !time.Now().Equal(began) {
				t.Fatalf("a watch behind its source has waited %v and got %v", time.Since(began), err)
			}
		})
		p.Progressed(11)
		for range 600 {
			if p.ProveProgress(t.Context()) == nil {
				return
			}
			<-time.After(100 * time.Millisecond)
		}
		t.Error("no watch is answered, though the cache is at the source's revision")
	})
}

// TestCostlyWatchLists: the cost of a second's watch-lists counts, whether they are few that
// examine much or many that examine little.
func TestCostlyWatchLists(t *testing.T) {
	for name, c := range map[string]struct{ examined, within, beyond int }{
		"of one object":        {1, 25, 30},
		"of a hundred objects": {100, 2, 3},
		"of all":               {5000, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inQuiet(t, 10, func(t *testing.T, p *provedCache) {
				costly := func(n int) (any bool) {
					for range n {
						any = p.AddWatchList(c.examined)
					}
					return any
				}
				if costly(c.within) || !costly(c.beyond-c.within) {
					t.Errorf("%d should cost little, and %d much", c.within, c.beyond)
				}
				<-time.After(10 * time.Second)
				if costly(c.within) {
					t.Error("watch-lists of before still count")
				}
			})
		})
	}
}

func TestNothingIsProvenBeforeTheLoad(t *testing.T) {
	c := newCache(cache.Config{})
	source := &quietSource{}
	p := cache.NewProver(c, cache.NewConsistent(c, source), source)
	if _, err := p.Prove(t.Context(), c.Register(cache.Spec{Prefix: "/things/"}), 1); !errors.Is(err, cache.ErrNotReady) {
		t.Errorf("got %v, want %v", err, cache.ErrNotReady)
	}
	if err := p.ProveProgress(t.Context()); !errors.Is(err, cache.ErrNotReady) {
		t.Errorf("a watch got %v, want %v", err, cache.ErrNotReady)
	}
}
