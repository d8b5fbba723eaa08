package differential

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
	"github.com/millrace/millrace/test/support/etcdtruth"
)

const (
	// watchSeedVariable holds the seed of a single script to repeat.
	watchSeedVariable = "MILLRACE_WATCH_SEED"
	watchScripts      = 24
	watchesPerScript  = 40
	minWrites         = 30
	moreWrites        = 70
	// kindsPerScript is small, so that each object changes often.
	kindsPerScript = 4
	// deliveryTimeout allows for a machine with other work.
	deliveryTimeout = 20 * time.Second
)

// watch compares the events that watches deliver: during scripts of writes,
// from revisions before earlier writes, and for malformed requests.
func (p *pair) watch(t *testing.T, gen *requestGenerator) {
	gen = gen.fork() // The copy has revisions of its own.
	t.Run("scripts", func(t *testing.T) { p.watchScripts(t, gen.Rand, watchScripts) })
	t.Run("at rest", func(t *testing.T) { p.watchAtRest(t, gen, watchesAtRest) })
	t.Run("malformed", func(t *testing.T) { p.malformedWatches(t, gen) })
	t.Run("bookmarks on request", func(t *testing.T) { p.requestedBookmarks(t, gen) })
}

// watchScripts runs scripts of writes. Watches of both servers from one
// revision must deliver the same events.
func (p *pair) watchScripts(t *testing.T, random *rand.Rand, scripts int) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	truth, err := etcdtruth.Follow(ctx, p.etcd, watchedResources())
	if err != nil {
		t.Fatal(err)
	}
	scripts = scaled(t, scripts)
	given := os.Getenv(watchSeedVariable)
	if given != "" {
		scripts = 1
	}
	start, total := time.Now(), watchTotals{}
	for range scripts {
		s := random.Uint64()
		if given != "" {
			if s, err = strconv.ParseUint(given, 10, 64); err != nil {
				t.Fatalf("%s: %v", watchSeedVariable, err)
			}
		}
		p.watchScript(t, truth, s, &total)
		if t.Failed() {
			t.Fatalf("repeat with %s=%d", watchSeedVariable, s)
		}
		truth.Forget(p.revision())
	}
	t.Logf("%d scripts, %d writes, %d watches at each server with %d events in %v; Kubernetes repeated columns in %d",
		scripts, total.writes, total.watches, total.events, time.Since(start).Round(time.Millisecond), total.columnsAgain)
}

type watchTotals struct{ writes, watches, events, columnsAgain int }

// runningWatch is a watch at both servers.
type runningWatch struct {
	watchRequest
	ours, theirs *stream
	// oursPassesOn is that of the pair.
	oursPassesOn bool
	// columnsAgain is set if Kubernetes repeated a Table's columns.
	columnsAgain bool
}

func (r *runningWatch) both() []*stream { return []*stream{r.ours, r.theirs} }

// watchRun is a script with its watches.
type watchRun struct {
	*pair
	*script
	t     *testing.T
	truth *etcdtruth.Follower
	all   []*runningWatch
	// now is the revision from which the watches start. moments are the
	// revisions at which the tenths of the script began.
	now     int64
	moments []int64
	// patience is closed when the deadline for all watches together has passed.
	patience <-chan struct{}
}

// patient starts the deadline for deliveries.
func (run *watchRun) patient() (stop func()) {
	ctx, cancel := context.WithTimeout(run.t.Context(), deliveryTimeout)
	run.patience = ctx.Done()
	return cancel
}

func (p *pair) watchScript(t *testing.T, truth *etcdtruth.Follower, seed uint64, total *watchTotals) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &script{
		requestGenerator: &requestGenerator{Rand: rand.New(rand.NewPCG(seed, 0))}, pair: p, seed: seed, exists: map[string]*target{}, bound: map[string]bool{},
	}
	for _, i := range s.Perm(len(watchedKinds))[:kindsPerScript] {
		s.kinds = append(s.kinds, watchedKinds[i])
	}
	run := &watchRun{pair: p, script: s, t: t, truth: truth}
	writes := minWrites + s.IntN(moreWrites)
	run.writeSome(ctx, writes/4)
	run.rest(ctx)
	for range watchesPerScript {
		run.all = append(run.all, &runningWatch{watchRequest: s.watch(run.now), oursPassesOn: p.oursPassesOn})
	}
	for tenth := range 11 {
		run.moments = append(run.moments, p.revision())
		run.open(ctx, tenth)
		if tenth == 0 {
			run.awaitInitial()
		}
		if tenth < 10 {
			run.writeSome(ctx, writes/10)
		}
	}
	through := p.revision()
	if err := truth.Wait(ctx, through); err != nil {
		t.Fatal(err)
	}
	run.awaitAll(through)
	cancel()
	for _, r := range run.all {
		mismatch := r.compare(truth)
		p.count(mismatch)
		if mismatch != "" {
			t.Errorf("%s (opened after %d0%% of %d writes from %d to %d)\n  query: %s\n%s", r.request, r.opens, writes, run.now, through, unescaped(r.query), mismatch)
		}
		events, _, _ := r.theirs.counts()
		total.events += events
		if r.columnsAgain {
			total.columnsAgain++
		}
	}
	total.watches, total.writes = total.watches+len(run.all), total.writes+s.writes
	if err := s.clean(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// writeSome makes n writes, and more if the last one wrote several objects at
// one revision. Such a write must not be the last: a watch that Kubernetes
// opens when its cache has only the first of these objects never receives the
// others.
func (run *watchRun) writeSome(ctx context.Context, n int) {
	run.t.Helper()
	before := run.writes
	for i := 0; i < n || run.several == run.writes; i++ {
		if err := run.write(ctx); err != nil {
			run.t.Fatal(err)
		}
		if err := run.older.storeAnew(ctx); err != nil {
			run.t.Fatal(err)
		}
	}
	if run.several > before {
		if err := run.catchUp("/api/v1/configmaps"); err != nil {
			run.t.Fatal(err)
		}
	}
}

// rest waits until both caches have all writes, at a revision that does not
// change meanwhile.
func (run *watchRun) rest(ctx context.Context) {
	run.t.Helper()
	for {
		run.now = run.revision()
		for _, k := range run.kinds {
			if err := run.catchUp(k.listPath(k.roots[0], "")); err != nil {
				run.t.Fatal(err)
			}
		}
		if err := run.truth.Wait(ctx, run.now); err != nil {
			run.t.Fatal(err)
		}
		if run.revision() == run.now {
			return
		}
	}
}

// open opens the watches of this tenth at both servers concurrently.
func (run *watchRun) open(ctx context.Context, tenth int) {
	run.t.Helper()
	var opening sync.WaitGroup
	for _, r := range run.all {
		if r.opens != tenth {
			continue
		}
		if r.since > 0 {
			r.start.Revision = run.moments[r.since]
			r.query = strings.Replace(r.query, laterVersion, fmt.Sprint(r.start.Revision), 1)
		}
		for _, at := range []struct {
			side *side
			to   **stream
		}{{run.ours, &r.ours}, {run.theirs, &r.theirs}} {
			opening.Go(func() {
				var err error
				if *at.to, err = at.side.open(ctx, r.watchRequest); err != nil {
					run.t.Errorf("%s at %s: %v", r.request, at.side.URL, err)
				}
			})
		}
	}
	opening.Wait()
	if run.t.Failed() {
		run.t.FailNow()
	}
}

// awaitInitial waits for the initial events, so that all watches show the same
// state.
func (run *watchRun) awaitInitial() {
	run.t.Helper()
	defer run.patient()()
	for _, r := range run.all {
		if r.start.Initial {
			run.await(r, len(run.truth.Truth(r.kind.Name).StateAt(&r.start.Selection, run.now)), false)
		}
	}
	if moved := run.revision(); moved != run.now {
		run.t.Logf("revision moved from %d to %d while watches were opened", run.now, moved)
	}
}

func (run *watchRun) awaitAll(through int64) {
	run.t.Helper()
	defer run.patient()()
	for _, r := range run.all {
		of := run.truth.Truth(r.kind.Name)
		n := 0
		if r.start.Initial {
			n = len(of.StateAt(&r.start.Selection, run.now)) + len(of.ExpectedEvents(&r.start.Selection, run.now, through))
		} else {
			n = len(of.ExpectedEvents(&r.start.Selection, r.start.Revision, through))
		}
		run.await(r, n, r.start.End)
	}
}

// await waits until both servers have sent all frames that a watch must
// receive, or have ended it.
func (run *watchRun) await(r *runningWatch, events int, end bool) {
	run.t.Helper()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for i, w := range r.both() {
		for {
			got, ends, over := w.counts()
			if over || got >= events && (ends > 0 || !end) {
				break
			}
			select {
			case <-ticker.C:
			case <-run.patience:
				run.t.Errorf("%s: %s delivers %d of %d events; end of initial events %t, want %t", r.request, []string{"ours", "theirs"}[i], got, events, ends > 0, end)
				return
			}
		}
	}
}

// compare validates each side against the truth, and compares the sides with
// each other.
func (r *runningWatch) compare(follower *etcdtruth.Follower) string {
	var out strings.Builder
	if r.ours.status != r.theirs.status {
		fmt.Fprintf(&out, "  status: ours %d, theirs %d\n", r.ours.status, r.theirs.status)
	}
	if r.ours.framing != r.theirs.framing {
		fmt.Fprintf(&out, "  sent as: ours %s, theirs %s\n", r.ours.framing, r.theirs.framing)
	}
	headerDifference(&out, &answer{header: r.ours.header, asked: r.request.asked()}, &answer{header: r.theirs.header})
	ourWatch, ourRaw := r.ours.recorded()
	theirWatch, theirRaw := r.theirs.recorded()
	if r.ours.status != http.StatusOK || r.theirs.status != http.StatusOK {
		fmt.Fprintf(&out, "  no watch: ours %.300q, theirs %.300q\n", r.ours.mu.body, r.theirs.mu.body)
		return out.String()
	}
	truth := follower.Truth(r.kind.Name)
	for i, w := range []*watchcheck.Watch{ourWatch, theirWatch} {
		name := []string{"ours", "theirs"}[i]
		if err := watchcheck.Validate(truth, w); err != nil {
			fmt.Fprintf(&out, "  %s is not valid: %v\n%s", name, err, firstFrames(w))
		}
		if w.Err != nil || w.Ended {
			fmt.Fprintf(&out, "  %s ended early: %v\n", name, w.Err)
		}
	}
	ours, err := sorted(ourWatch, ourRaw)
	if err != nil && !(r.oursPassesOn && errors.As(err, new(errColumns))) {
		fmt.Fprintf(&out, "  ours: %v\n", err)
	}
	theirs, err := sorted(theirWatch, theirRaw)
	if r.columnsAgain = errors.As(err, new(errColumns)); err != nil && !r.columnsAgain {
		fmt.Fprintf(&out, "  theirs: %v\n", err)
	}
	out.WriteString(ours.differ(theirs, strings.Contains(r.accept, "as=Table")))
	return out.String()
}

const framesShown = 20

// firstFrames prints the first frames of a watch.
func firstFrames(w *watchcheck.Watch) string {
	var out strings.Builder
	for i := range w.Frames[:min(len(w.Frames), framesShown)] {
		fmt.Fprintf(&out, "    %s\n", &w.Frames[i])
	}
	return out.String()
}
