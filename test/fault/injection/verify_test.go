package injection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/tool/verify"
	"github.com/millrace/millrace/test/support/harness"
)

// runsOfCluster is how many runs a cluster lasts. What a run leaves behind is small.
const runsOfCluster = 10

// TestFaults verifies a cluster under faults, once for each seed.
func TestFaults(t *testing.T) {
	needLong(t)
	seed, count, all := harness.Seed(t), runs(t), &tally{}
	began := time.Now()
	for first := 0; first < count; first += runsOfCluster {
		last := min(first+runsOfCluster, count)
		t.Run(fmt.Sprintf("runs-%d-to-%d", first+1, last), func(t *testing.T) {
			c := startCluster(t, wholeShape(t))
			defer c.end()
			c.introduce(t)
			for i := first; i < last; i++ {
				all.add(c.verify(t, seed+uint64(i), kinds(), duration(t)))
				t.Logf("run %d of %d: %s", i+1, count, all)
			}
		})
	}
	t.Logf("%d runs in %v: %s", count, time.Since(began).Round(time.Second), all)
	for _, state := range all.missing {
		t.Logf("not seen in any run: %s", state)
	}
}

// TestFaultsShort verifies one server and a replica over three members for some seconds, under
// faults that are over at once.
func TestFaultsShort(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	c := startCluster(t, shape{members: 3, servers: []string{""}, replicas: []int{1}})
	defer c.end()
	var brief []*kind
	for _, k := range kinds() {
		if k.longest == 0 || k.name == "pause" || k.name == "cut" || k.name == "silence" {
			brief = append(brief, k)
		}
	}
	result := c.verify(t, harness.Seed(t), brief, 7*time.Second)
	t.Logf("%+v", result.Counts)
}

// introduce tells where the nodes listen.
func (c *cluster) introduce(t *testing.T) {
	t.Helper()
	var all []string
	for _, n := range c.nodes() {
		all = append(all, fmt.Sprintf("%s=%d", n.name, c.ports[n.name]))
	}
	t.Logf("ports: %s", strings.Join(all, " "))
}

// tally is what several runs came to.
type tally struct {
	runs, faults, violations, undecided int
	writes, unknown, reads, watches     int
	// leastStates and mostStates are the least share of the states of the read API that a run
	// has seen, and the share that all have seen together.
	leastStates, allStates float64
	missing                []string
	memory                 int64
}

// result is what one run came to.
type result struct {
	*verify.Report
	faults int
	memory int64
}

func (a *tally) add(r result) {
	if r.Report == nil {
		return
	}
	a.faults += r.faults
	a.violations += r.Violations()
	for i := range r.Checks {
		a.undecided += r.Checks[i].Undecided
	}
	a.writes, a.unknown = a.writes+r.Counts.Writes, a.unknown+r.Counts.Unknown
	a.reads, a.watches = a.reads+r.Counts.Reads, a.watches+r.Counts.Watches
	share := float64(r.Coverage.Seen) / float64(r.Coverage.Reachable)
	if a.runs == 0 {
		a.missing, a.leastStates = r.Coverage.Missing, share
	}
	a.leastStates = min(a.leastStates, share)
	a.missing = slices.DeleteFunc(slices.Clone(a.missing), func(state string) bool { return !slices.Contains(r.Coverage.Missing, state) })
	a.allStates = 1 - float64(len(a.missing))/float64(r.Coverage.Reachable)
	a.memory = max(a.memory, r.memory)
	a.runs++
}

func (a *tally) String() string {
	return fmt.Sprintf("%d runs checked: %d violations, %d undecided; %d faults, %d writes (%d of unknown outcome), %d reads, %d watches; states seen: %.0f %% in all runs together, at least %.0f %% in one; %d MiB at most",
		a.runs, a.violations, a.undecided, a.faults, a.writes, a.unknown, a.reads, a.watches, 100*a.allStates, 100*a.leastStates, a.memory)
}

// verify verifies all servers and replicas, while the faults of a seed happen. In the end the
// cluster is whole.
func (c *cluster) verify(t *testing.T, seed uint64, all []*kind, clients time.Duration) result {
	t.Helper()
	faults := schedule(seed, c.cast(), all, clients)
	t.Logf("seed %d, %d faults; repeat with %s=%d", seed, len(faults), harness.SeedVariable, seed)
	began := time.Now()
	report, err := c.observe(t, seed, faults, clients)
	c.checkExits(t)
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	if report == nil {
		return result{}
	}
	if report.Violations() > 0 {
		_ = report.Write(t.Output())
		t.Errorf("seed %d: %d violations", seed, report.Violations())
	}
	c.agree(t)
	t.Logf("seed %d took %v", seed, time.Since(began).Round(time.Second))
	return result{report, len(faults), c.memory()}
}

// observe has clients verify all servers and replicas, while faults happen. The report is nil
// if there is none.
func (c *cluster) observe(t *testing.T, seed uint64, faults []*fault, clients time.Duration) (report *verify.Report, err error) {
	t.Helper()
	story := &story{t: t}
	defer story.end()
	in := &injector{cluster: c, tell: story.add}
	var broken error
	report, err = verify.Run(t.Context(), verify.Config{
		Servers: c.endpoints(), Duration: clients, Writers: 12, Readers: 24, Watchers: 32, Rate: 40, Keys: 16, Seed: seed,
		// Many clients, of which some wait for a process that stands still while others go on.
		Timeout: 5 * time.Second, ReadPause: 60 * time.Millisecond, Settle: time.Minute,
		Meanwhile: func(ctx context.Context) {
			in.inject(ctx, faults)
			broken = awaitReady(c.nodes(), readyTimeout)
			story.add(time.Since(in.began), "all processes are ready")
		},
	})
	return report, errors.Join(err, broken)
}

// checkExits tells which processes ended by themselves. Servers may, when etcd is away for
// long; a crash is a failure, and so is a history that seems to be another one.
func (c *cluster) checkExits(t *testing.T) {
	t.Helper()
	for _, n := range c.nodes() {
		for _, said := range n.takeExits() {
			t.Logf("%s has ended by itself: %s", n.name, lastLine(said))
			for _, crash := range []string{"panic: ", "fatal error: ", "gone back in time"} {
				if strings.Contains(said, crash) {
					t.Errorf("%s has ended by itself:\n%s", n.name, said)
				}
			}
		}
	}
}

// lastLine is the last line of an output.
func lastLine(output string) string {
	output = strings.TrimSpace(output)
	return output[strings.LastIndex(output, "\n")+1:]
}

// story tells what happens in a run while it happens, from several goroutines.
type story struct {
	t  *testing.T
	mu struct {
		sync.Mutex
		over bool
	}
}

func (s *story) add(at time.Duration, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.over {
		s.t.Logf("%8.3fs %s", at.Seconds(), what)
	}
}

// end ends the story.
func (s *story) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.over = true
}
