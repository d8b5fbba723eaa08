package injection

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/tool/verify"
	"github.com/millrace/millrace/test/support/harness"
)

// treeScale is the size of a test of a tree, and what happens in it.
type treeScale struct {
	replicas []int
	// programs read at the last depth, each with an informer of each of ten resources.
	programs int
	// objects are those of each resource, and rate how many are written in a second.
	objects int
	rate    float64
	// killed are the nodes that are killed, one after the other, and drained the depths whose
	// replicas are then restarted in turn.
	killed  []string
	drained []int
	// verified is how long all servers and replicas are verified meanwhile.
	verified time.Duration
}

// longTree is a tree under 10,000 informers.
var longTree = treeScale{
	replicas: []int{2, 4}, programs: 1000, objects: 20, rate: 15,
	killed:  []string{"server-1", "replica-1a", "replica-1b", "replica-2a", "replica-2c"},
	drained: []int{2, 1}, verified: 4 * time.Minute,
}

// TestTree kills and restarts each kind of node of a tree under 10,000 informers:
//
//	server-1 ─┬─ replica-1a ─┬─ replica-2a ─┐
//	          │              ├─ replica-2b ─┤  1,000 programs, each with
//	          └─ replica-1b ─┼─ replica-2c ─┤  an informer of ten resources
//	                         └─ replica-2d ─┘
//
// A replica whose upstream is away goes on at the other one of that depth, and so does a
// program. No informer may miss an event or get one twice, and none may list again. The root
// is a Millrace, and then a kube-apiserver if the environment names one.
func TestTree(t *testing.T) {
	needLong(t)
	t.Run("millrace", func(t *testing.T) { longTree.run(t, "") })
	if program := harness.Upstream(); program != "" {
		t.Run("kube-apiserver", func(t *testing.T) { longTree.run(t, program) })
	}
}

// TestTreeShort kills a replica in the middle of a small tree, and one at its end.
func TestTreeShort(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	treeScale{replicas: []int{2, 2}, programs: 20, objects: 3, rate: 50, killed: []string{"replica-1a", "replica-2a"}}.run(t, "")
}

// treeRun is a tree under a fleet.
type treeRun struct {
	*cluster
	t     *testing.T
	fleet *fleet
	load  *load
	// forgets says that the root has no history after a restart, as a kube-apiserver has none.
	forgets bool
	rows    []treeRow
}

// treeRow is what a step has cost.
type treeRow struct {
	step string
	// goneOn is the time until all informers had an event of after the step, and back that
	// until all nodes were ready again.
	goneOn, back time.Duration
	watches      watchCounts
	root         rootRequests
	// began, before and position are of the beginning.
	began    time.Time
	before   watchCounts
	position int
}

func (size treeScale) run(t *testing.T, program string) {
	c := startCluster(t, shape{members: 1, servers: []string{program}, replicas: size.replicas, fleet: true})
	defer c.end()
	follower := c.followResources(t.Context())
	r := &treeRun{cluster: c, t: t, forgets: program != ""}
	r.load = c.startLoad(t, c.servers[0], size.objects)
	stop := r.load.run(size.rate)
	defer stop()
	began, position := time.Now(), c.log.position(t)
	depth := len(size.replicas)
	r.fleet = c.startFleet(t, c.atDepth(depth), size.programs)
	first := c.log.since(t, position)
	t.Logf("%d informers have all objects after %v; at the root: %v", r.fleet.synced.Load(), time.Since(began).Round(time.Millisecond), &first)
	err := r.whileVerified(size.verified, func() error { return r.steps(size) })
	stop()
	var last []int64
	if err == nil {
		last, err = r.load.mark()
	}
	if err == nil {
		err = r.fleet.await(last)
	}
	if err == nil {
		err = follower.Wait(t.Context(), slices.Max(last))
	}
	r.fleet.close()
	r.report()
	c.checkExits(t)
	if err != nil {
		t.Fatal(err)
	}
	r.fleet.check(t, follower, r.load)
	t.Logf("%d programs and %d informers got %d events of %d writes (%d more of unknown outcome) in %v", size.programs, size.programs*len(r.fleet.resources),
		r.fleet.events.Load(), r.load.made.Load(), r.load.failed.Load(), time.Since(began).Round(time.Second))
}

// atDepth are the replicas of a depth.
func (c *cluster) atDepth(depth int) (found []*node) {
	for _, n := range c.replicas {
		if strings.HasPrefix(n.name, fmt.Sprintf("replica-%d", depth)) {
			found = append(found, n)
		}
	}
	return found
}

// whileVerified does something while all servers and replicas are verified for a time.
func (r *treeRun) whileVerified(d time.Duration, do func() error) (failed error) {
	if d == 0 {
		return do()
	}
	report, err := verify.Run(r.t.Context(), verify.Config{
		Servers: r.endpoints(), Duration: d, Writers: 4, Readers: 8, Watchers: 16, Rate: 10, Keys: 12, Seed: harness.Seed(r.t),
		Timeout: 5 * time.Second, ReadPause: 60 * time.Millisecond, Settle: readyTimeout,
		Meanwhile: func(context.Context) { failed = do() },
	})
	if err != nil {
		r.t.Errorf("verify: %v", err)
	}
	if report == nil {
		return failed
	}
	r.t.Logf("verified: %d violations, %d of %d states seen, %+v, seed %d", report.Violations(), report.Coverage.Seen, report.Coverage.Reachable, report.Counts, report.Seed)
	if report.Violations() > 0 {
		_ = report.Write(r.t.Output())
		r.t.Errorf("%d violations", report.Violations())
	}
	return failed
}

// steps kills nodes, and then restarts the replicas of depths in turn.
func (r *treeRun) steps(size treeScale) error {
	if err := r.awaitCheckpoints(); err != nil {
		return err
	}
	for _, name := range size.killed {
		for _, n := range r.nodes() {
			if n.name != name {
				continue
			}
			if err := r.kill(n); err != nil {
				return fmt.Errorf("kill %s: %w", name, err)
			}
		}
	}
	for _, depth := range size.drained {
		row := r.begin(fmt.Sprintf("restart all of depth %d", depth))
		for _, n := range r.atDepth(depth) {
			if err := r.restart(n); err != nil {
				return fmt.Errorf("restart %s: %w", n.name, err)
			}
		}
		row.back = time.Since(row.began)
		if err := r.goOn(&row); err != nil {
			return fmt.Errorf("restart depth %d: %w", depth, err)
		}
		r.end(&row)
	}
	return nil
}

// awaitCheckpoints waits until each replica has a checkpoint of each resource that was written
// since all have objects: one without objects is not used, so a restart would have to list.
func (r *treeRun) awaitCheckpoints() error {
	began := time.Now()
	if _, err := r.load.mark(); err != nil { // what does not change is not written again
		return err
	}
	for _, n := range r.replicas {
		for _, resource := range r.load.resources {
			file := filepath.Join(r.dir, n.name, "data", "checkpoints", resource.name+".checkpoint")
			err := harness.Until(readyTimeout, func() error {
				info, err := os.Stat(file)
				if err == nil && info.ModTime().Before(began) {
					return harness.ErrNotYet
				}
				return err
			})
			if err != nil {
				return fmt.Errorf("wait for a checkpoint in %s: %w", file, err)
			}
		}
	}
	return nil
}

// goOn waits until all informers have an event of a write that is made now.
func (r *treeRun) goOn(row *treeRow) error {
	revisions, err := r.load.mark()
	if err == nil {
		err = r.fleet.await(revisions)
	}
	row.goneOn = time.Since(row.began)
	return err
}

// absent is how long the root is away at least.
const absent = 2 * time.Second

// kill kills a node, waits until all informers go on without it, and starts it again. Without
// the root there are no events: it is back before all go on.
func (r *treeRun) kill(n *node) error {
	row := r.begin("kill " + n.name)
	isRoot := slices.Contains(r.servers, n)
	n.kill()
	if isRoot {
		<-time.After(absent) // this is the fault itself, and not a wait for something
	} else if err := r.goOn(&row); err != nil {
		return err
	}
	n.revive()
	if err := awaitReady([]*node{n}, readyTimeout); err != nil {
		return err
	}
	row.back = time.Since(row.began)
	if isRoot {
		if err := r.goOn(&row); err != nil {
			return err
		}
	}
	r.end(&row)
	return nil
}

// restart has a replica end in good order, and starts it again once all informers go on without
// it.
func (r *treeRun) restart(n *node) error {
	if err := n.terminate(); err != nil {
		return err
	}
	if err := r.goOn(&treeRow{}); err != nil {
		return err
	}
	n.revive()
	return awaitReady([]*node{n}, readyTimeout)
}

func (r *treeRun) begin(step string) treeRow {
	return treeRow{step: step, began: time.Now(), before: r.fleet.counts(), position: r.log.position(r.t)}
}

// end notes what a step has cost, and checks that nothing was listed again. A root without a
// history is an exception: what was written before its replicas heard of it may be lost, so
// they load anew, and so do the informers behind them, there.
func (r *treeRun) end(row *treeRow) {
	row.watches, row.root = r.fleet.counts().since(row.before), r.log.since(r.t, row.position)
	r.rows = append(r.rows, *row)
	if r.forgets && row.step == "kill "+r.servers[0].name {
		if most := 2 * len(r.atDepth(1)) * len(r.fleet.resources); row.root.lists > most {
			r.t.Errorf("%s: replicas have listed %d times at the root, and were to do so at most %d times", row.step, row.root.lists, most)
		}
		return
	}
	if row.root.lists+row.root.passedOn > 0 || row.watches.expired > 0 {
		r.t.Errorf("%s: %d watches got 410, and the root was asked for %v", row.step, row.watches.expired, row.root.listed)
	}
}

// report prints the rows.
func (r *treeRun) report() {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%-28s %8s %8s %8s %8s %8s %6s | at the root: %6s %8s %8s %8s %8s\n",
		"step", "go on s", "back s", "moved", "ended", "refused", "410", "lists", "passed", "watches", "ones", "reviews")
	for _, row := range r.rows {
		fmt.Fprintf(&text, "%-28s %8.1f %8.1f %8d %8d %8d %6d | %19d %8d %8d %8d %8d\n", row.step, row.goneOn.Seconds(), row.back.Seconds(),
			row.watches.moved, row.watches.ended, row.watches.refused, row.watches.expired, row.root.lists, row.root.passedOn, row.root.watches, row.root.ones, row.root.reviews)
	}
	r.t.Log(text.String())
}
