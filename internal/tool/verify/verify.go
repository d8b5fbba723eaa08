package verify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/interrupt"
)

type run struct {
	cfg     Config
	id      string
	start   time.Time
	servers []*server
	fixture *fixture
	record  *record
	line    *display.Line
	// reads and watches are the requests of the scorecard.
	reads, watches *deck
	// began is the revision before the first write.
	began int64
	// awaited counts what servers had to show of the last writes, and silent are those that did
	// not.
	awaited int
	silent  []silence
	// incomplete says why the history ends early. What there is of it is checked.
	incomplete error
}

// Run verifies the servers of a Config. Violations are in the report. The error says why there
// is no report, or, beside a report, what was left behind.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, start: time.Now(), record: newRecord(), line: display.NewLine(cfg.Progress)}
	r.id = fmt.Sprintf("r%d-%s", cfg.Seed, strconv.FormatInt(r.start.UnixMilli()%1e9, 36))
	r.fixture = newFixture(r.id)
	r.reads, r.watches = newDeck(readRequests(), r.random(-1)), newDeck(watchRequests(), r.random(-2))
	for i, config := range cfg.Servers {
		s, err := newServer(i, config, r.cfg.Timeout)
		if err != nil {
			return nil, err
		}
		r.servers = append(r.servers, s)
	}
	return r.inFixture(ctx)
}

// interruptGrace bounds the removal of what was created, after an interrupt. The user waits.
const interruptGrace = 5 * time.Second

// inFixture records a history, removes what was created for it, and checks the history.
func (r *run) inFixture(ctx context.Context) (*Report, error) {
	defer r.line.End()
	err := r.reach(ctx)
	if err == nil {
		err = r.fixture.create(ctx, r.servers)
	}
	if err == nil {
		err = r.work(ctx)
	}
	left := r.removeFixture(ctx)
	if err != nil {
		return nil, errors.Join(interrupt.Explain(ctx, err), left)
	}
	r.line.Show(fmt.Sprintf("checking %d writes, %d reads and %d watches", len(r.record.mu.writes), len(r.record.mu.reads), len(r.record.mu.watches)))
	return r.check(context.WithoutCancel(ctx)), errors.Join(r.incomplete, left)
}

// removeFixture removes what was created, also after the context has ended.
func (r *run) removeFixture(ctx context.Context) error {
	if !r.fixture.made {
		return nil
	}
	limit := fixtureTimeout
	if ctx.Err() != nil {
		limit = interruptGrace
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	var err error
	for _, s := range r.servers { // one of them may be gone
		if err = r.fixture.remove(ctx, s); err == nil {
			return nil
		}
	}
	return fmt.Errorf("not removed, millrace-tools verify --delete does it: %w", err)
}

func (r *run) now() time.Duration { return time.Since(r.start) }

// keyName is a random name of an object.
func (r *run) keyName(random *rand.Rand) string { return keyName(random.IntN(r.cfg.Keys)) }

func keyName(i int) string { return fmt.Sprintf("k%03d", i) }

// random is a source for one of the clients.
func (r *run) random(client int) *rand.Rand { return rand.New(rand.NewPCG(r.cfg.Seed, uint64(client))) }

// work runs all clients for the time of the run, and then writes once more and waits until
// each server has shown that.
func (r *run) work(ctx context.Context) error {
	if err := r.findBeginning(ctx); err != nil {
		return err
	}
	following, stopFollowing := context.WithCancel(ctx)
	followers := r.follow(following)
	defer func() {
		stopFollowing()
		for _, f := range followers {
			<-f.passed
		}
	}()
	if err := r.probe(ctx); err != nil {
		return err
	}
	clients, stop := context.WithTimeout(ctx, r.cfg.Duration)
	defer stop()
	var working sync.WaitGroup
	period := time.Duration(float64(r.cfg.Writers) / r.cfg.Rate * float64(time.Second))
	for i := range r.cfg.Writers {
		w := &writer{run: r, id: fmt.Sprintf("writer-%d", i), rand: r.random(i), believed: map[objectKey]string{}}
		working.Go(func() { w.work(clients, period) })
	}
	for i := range r.cfg.Readers {
		reader := &reader{run: r, id: fmt.Sprintf("reader-%d", i), rand: r.random(1000 + i), servers: r.servers}
		working.Go(func() { reader.work(clients) })
	}
	for i := range r.cfg.Watchers {
		w := &watcher{run: r, id: fmt.Sprintf("watcher-%d", i), rand: r.random(2000 + i)}
		working.Go(func() { w.work(clients) })
	}
	if meanwhile := r.cfg.Meanwhile; meanwhile != nil {
		working.Go(func() { meanwhile(clients) })
	}
	r.line.Follow(clients, r.progress)
	working.Wait()
	if ctx.Err() == nil {
		r.settle(ctx, followers)
	}
	if ctx.Err() != nil {
		r.incomplete = fmt.Errorf("interrupted after %.0f s; what had happened by then was checked", r.now().Seconds())
	}
	return nil
}

// findBeginning reads the revision before the first write.
func (r *run) findBeginning(ctx context.Context) error {
	for i := range r.fixture.resources {
		for _, s := range r.servers {
			got, err := s.call(ctx, "GET", r.fixture.resources[i].collection, nil, jsonHeader(), nil)
			if err != nil {
				return fmt.Errorf("list %s: %w", r.fixture.resources[i].name, err)
			}
			first := &Read{Request: Request{Verb: "list"}}
			if _, err := first.parse(got.body); err != nil {
				return fmt.Errorf("list %s: %w", r.fixture.resources[i].name, err)
			}
			r.began = max(r.began, first.Revision)
			r.record.saw(first.Revision)
		}
	}
	return nil
}

func (r *run) follow(ctx context.Context) (followers []*follower) {
	for _, s := range r.servers {
		for i := range r.fixture.resources {
			f := &follower{run: r, server: s, resource: r.fixture.resources[i].name, last: make(chan int64, 1), passed: make(chan struct{})}
			go f.work(ctx, r.began)
			followers = append(followers, f)
		}
	}
	return followers
}

// progress says how far the run is.
func (r *run) progress(time.Duration) string {
	c := &r.record.count
	return fmt.Sprintf("%3.0f s of %s: %d writes (%d of unknown outcome), %d reads, %d watches, %d frames", r.now().Seconds(), r.cfg.Duration,
		c.writes.Load(), c.unknown.Load(), c.reads.Load(), c.watches.Load(), c.events.Load())
}
