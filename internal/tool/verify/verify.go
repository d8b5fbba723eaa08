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

// run is the state of a run that its clients share. Clients change only the record, the
// two cycles and the last failures of servers. All are safe for concurrent use.
type run struct {
	cfg     Config
	id      string // part of the names of the namespace and the definition
	start   time.Time
	servers []*server
	fixture *fixture
	record  *record
	line    *display.Line
	// readCycle and watchCycle have the requests of the scorecard.
	readCycle, watchCycle *requestCycle
	// firstRevision is the revision before the first write.
	firstRevision int64
	// shownCases counts the cases of the promise Shown, and silences are the violations.
	shownCases int
	silences   []silence
	// incompleteErr says why the record ends early, or is nil. The record is checked in any case.
	incompleteErr error
}

// Run verifies the servers of a Config. The report has the violations: they are not an error. If the
// report is nil, the error says why. Otherwise an error says that the run was interrupted, or what was
// not removed from the cluster. It may also say that no server acknowledged the last write, or that a
// replica answered no read itself.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, start: time.Now(), record: newRecord(), line: display.NewLine(cfg.Progress)}
	r.id = fmt.Sprintf("r%d-%s", cfg.Seed, strconv.FormatInt(r.start.UnixMilli()%1e9, 36))
	r.fixture = newFixture(r.id)
	r.readCycle = newRequestCycle(readRequests(), r.newRandom(-1))
	r.watchCycle = newRequestCycle(watchRequests(), r.newRandom(-2))
	for i, config := range cfg.Servers {
		s, err := newServer(i, config, r.cfg.Timeout)
		if err != nil {
			return nil, err
		}
		r.servers = append(r.servers, s)
	}
	return r.runInFixture(ctx)
}

// interruptGrace bounds requests for which the user waits at the end of a run. They remove the
// fixture after an interrupt, and read the servers' versions and counts of own reads.
const interruptGrace = 5 * time.Second

// runInFixture creates the fixture, runs the clients, removes the fixture, and checks the
// record.
func (r *run) runInFixture(ctx context.Context) (*Report, error) {
	defer r.line.End()
	err := r.reachServers(ctx)
	if err == nil {
		err = r.fixture.create(ctx, r.servers)
	}
	if err == nil {
		err = r.work(ctx)
		r.countOwnReads(ctx)
	}
	removeErr := r.removeFixture(ctx)
	if err != nil {
		return nil, errors.Join(interrupt.Explain(ctx, err), removeErr)
	}
	record := &r.record.mu // no client runs any more
	r.line.Show(fmt.Sprintf("checking %d writes, %d reads and %d watches", len(record.writes), len(record.reads), len(record.watches)))
	report := r.checkRecord(context.WithoutCancel(ctx))
	return report, errors.Join(r.incompleteErr, report.passedOnErr(), removeErr)
}

// removeFixture removes the fixture, also after the context has ended. It tries one server after
// another, because the first server may be down by now.
func (r *run) removeFixture(ctx context.Context) error {
	if !r.fixture.mayExist {
		return nil
	}
	limit := fixtureTimeout
	if ctx.Err() != nil {
		limit = interruptGrace
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	var err error
	for _, s := range r.servers {
		if err = r.fixture.remove(ctx, s); err == nil {
			return nil
		}
	}
	return fmt.Errorf("not removed, millrace-tools verify --delete does it: %w", err)
}

// now returns the time since the start of the run.
func (r *run) now() time.Duration { return time.Since(r.start) }

// randomKeyName returns the name of one of the objects.
func (r *run) randomKeyName(random *rand.Rand) string { return keyName(random.IntN(r.cfg.Keys)) }

func keyName(i int) string { return fmt.Sprintf("k%03d", i) }

// newRandom returns a source of random numbers for the client with a number. It depends on the seed.
// Negative numbers stand for the run itself.
func (r *run) newRandom(client int) *rand.Rand {
	return rand.New(rand.NewPCG(r.cfg.Seed, uint64(client)))
}

// work starts followers, probes, and runs all clients for Config.Duration. Then it writes once more to
// each resource, and waits for up to Config.Settle until each server has shown these writes.
func (r *run) work(ctx context.Context) error {
	if err := r.findFirstRevision(ctx); err != nil {
		return err
	}
	following, stopFollowing := context.WithCancel(ctx)
	followers := r.startFollowers(following)
	defer func() {
		stopFollowing()
		for _, f := range followers {
			<-f.passed
		}
	}()
	if err := r.probe(ctx); err != nil {
		return err
	}
	r.runClients(ctx)
	if ctx.Err() == nil {
		r.settle(ctx, followers)
	}
	if ctx.Err() != nil {
		r.incompleteErr = fmt.Errorf("interrupted after %.0f s; what had happened by then was checked", r.now().Seconds())
	}
	return nil
}

// runClients runs all writers, readers and watchers, and Config.Meanwhile, for Config.Duration.
// It returns when all have ended.
func (r *run) runClients(ctx context.Context) {
	clients, stop := context.WithTimeout(ctx, r.cfg.Duration)
	defer stop()
	var working sync.WaitGroup
	period := time.Duration(float64(r.cfg.Writers) / r.cfg.Rate * float64(time.Second))
	for i := range r.cfg.Writers {
		w := &writer{run: r, id: fmt.Sprintf("writer-%d", i), rand: r.newRandom(i), believed: map[objectKey]string{}}
		working.Go(func() { w.work(clients, period) })
	}
	for i := range r.cfg.Readers {
		reader := &reader{run: r, id: fmt.Sprintf("reader-%d", i), rand: r.newRandom(1000 + i), servers: r.servers}
		working.Go(func() { reader.work(clients) })
	}
	for i := range r.cfg.Watchers {
		w := &watcher{run: r, id: fmt.Sprintf("watcher-%d", i), rand: r.newRandom(2000 + i)}
		working.Go(func() { w.work(clients) })
	}
	if meanwhile := r.cfg.Meanwhile; meanwhile != nil {
		working.Go(func() { meanwhile(clients) })
	}
	r.line.Follow(clients, r.progress)
	working.Wait()
}

// findFirstRevision sets firstRevision to the newest revision that a server answers now.
func (r *run) findFirstRevision(ctx context.Context) error {
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
			r.firstRevision = max(r.firstRevision, first.Revision)
			r.record.observe(first.Revision)
		}
	}
	return nil
}

// startFollowers starts a follower of each resource at each server. The caller must end ctx, and wait
// until the channel passed of each follower is closed.
func (r *run) startFollowers(ctx context.Context) (followers []*follower) {
	for _, s := range r.servers {
		for i := range r.fixture.resources {
			f := &follower{
				run: r, server: s, resource: r.fixture.resources[i].name, goal: make(chan int64, 1), passed: make(chan struct{}),
			}
			go f.work(ctx, r.firstRevision)
			followers = append(followers, f)
		}
	}
	return followers
}

// progress returns the line that shows how far the run is.
func (r *run) progress(time.Duration) string {
	c := &r.record.count
	return fmt.Sprintf("%3.0f s of %s: %d writes (%d of unknown outcome), %d reads, %d watches, %d frames",
		r.now().Seconds(), r.cfg.Duration, c.writes.Load(), c.unknown.Load(), c.reads.Load(), c.watches.Load(), c.frames.Load())
}
