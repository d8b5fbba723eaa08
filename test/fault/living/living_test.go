package living

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/test/support/changingupstream"
	"github.com/millrace/millrace/test/support/harness"
)

const (
	// scriptsVariable is the number of scripts of each world. Each has a seed of its own, one
	// more than the one before.
	scriptsVariable = "MILLRACE_LIVING_SCRIPTS"
	// feedsVariable names the feeds, separated by commas.
	feedsVariable = "MILLRACE_LIVING_FEEDS"
	// clientsVariable is the number of clients of a script at each front.
	clientsVariable = "MILLRACE_LIVING_CLIENTS"
	// stepsVariable is the number of changes of a script.
	stepsVariable = "MILLRACE_LIVING_STEPS"
	// storyVariable prints the story of each script.
	storyVariable = "MILLRACE_LIVING_STORY"
	// ciSteps and ciClients are the sizes of the short form. The long one has several times more
	// clients: 50 in all.
	ciSteps, ciClients = 8, 3
	// together is how many scripts run at once in each world.
	together = 3
	// settleTimeout is how long a replica may take to list what the upstream lists.
	settleTimeout = 30 * time.Second
)

func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	given := os.Getenv(variable)
	if given == "" {
		return otherwise
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q: give a number above 0", variable, given)
	}
	return n
}

func feeds(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, of := range feedsOf {
		for _, feed := range of {
			all[feed] = true
		}
	}
	given := os.Getenv(feedsVariable)
	if given == "" {
		return all
	}
	chosen := map[string]bool{}
	for feed := range strings.SplitSeq(given, ",") {
		if !all[feed] {
			t.Fatalf("%s: there is no feed %q, but %v", feedsVariable, feed, slices.Sorted(maps.Keys(all)))
		}
		chosen[feed] = true
	}
	return chosen
}

// TestLiving is the test that the package's comment describes.
func TestLiving(t *testing.T) {
	if testing.Short() {
		t.Skip("starts six servers")
	}
	seed, chosen := harness.Seed(t), feeds(t)
	t.Logf("repeat with %s=%d", harness.SeedVariable, seed)
	for name, scripts := range map[string]int{stock: 6, millrace: 4} {
		if !slices.ContainsFunc(feedsOf[name], func(feed string) bool { return chosen[feed] }) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seeds []uint64
			for i := range number(t, scriptsVariable, scripts) {
				seeds = append(seeds, seed+uint64(i))
			}
			w := newWorld(t, name, seeds)
			server := harness.Start(t, harness.ShortTempDir(t), w.flags()...)
			w.begin(t, server, server.EtcdClient())
			w.replicate(t, server, server.EtcdServers(), chosen)
			queue := make(chan uint64, len(seeds))
			for _, s := range seeds {
				queue <- s
			}
			close(queue)
			var running sync.WaitGroup
			for range together {
				running.Go(func() {
					for s := range queue {
						w.run(t, w.script(s))
					}
				})
			}
			running.Wait()
			w.floor(t, len(seeds))
		})
	}
}

// script returns the script of a seed.
func (w *world) script(seed uint64) *changingupstream.Script {
	return changingupstream.NewScript(w.Upstream, w.extension, seed, slices.Concat(w.customs[seed], w.builtIns)...)
}

// run runs one script.
func (w *world) run(t *testing.T, s *changingupstream.Script) {
	w.runSteps(t, s, number(t, stepsVariable, ciSteps))
}

func (w *world) runSteps(t *testing.T, s *changingupstream.Script, steps int) {
	began, seed := time.Now(), s.Seed
	defer w.hold(seed)()
	if err := s.Begin(t.Context()); err != nil {
		t.Errorf("script %d: %v", seed, err)
		return
	}
	reading, endReading := context.WithCancel(t.Context())
	stop, endWatches := context.WithCancel(t.Context())
	defer endReading()
	defer endWatches()
	open := newWatches(stop)
	var tallies []*tally
	var clients sync.WaitGroup
	for i, f := range w.fronts {
		tally := newTally(f.name)
		tallies = append(tallies, tally)
		for j := range number(t, clientsVariable, ciClients) {
			r := &reader{
				Client: changingupstream.NewClient(f.server, w.Token), script: s, front: f, tally: tally, watches: open,
				random: rand.New(rand.NewPCG(seed, uint64(1000*(i+1)+j))), revisions: map[*changingupstream.Resource]int64{},
				places: make(chan struct{}, watchesAtOnce),
			}
			clients.Go(func() {
				r.run(reading)
			})
			t.Cleanup(r.Close)
		}
	}
	for i, f := range w.fronts {
		client := changingupstream.NewClient(f.server, s.Right.Token)
		t.Cleanup(client.Close)
		clients.Go(func() { seekRights(reading, client, s, &seeker{f, tallies[i]}) })
	}
	err := s.Run(t.Context(), steps)
	endReading()
	clients.Wait()
	open.drain(t.Context())
	endWatches()
	open.running.Wait()
	if err != nil {
		t.Errorf("script %d: %v\n%s", seed, err, s.Log())
		return
	}
	for i, f := range w.fronts {
		if said := f.ended(began); said != "" {
			tallies[i].find(processEnded, "%s", said)
		}
	}
	for i, f := range w.fronts[1:] {
		w.settled(t.Context(), s, f, tallies[i+1])
	}
	w.report(t, s, tallies, time.Since(began))
}

// hold keeps the history of etcd from here on until the result is called.
func (w *world) hold(seed uint64) (release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.holds[seed] = w.Revision()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.mu.holds, seed)
		least := w.Revision()
		for _, revision := range w.mu.holds {
			least = min(least, revision)
		}
		w.Forget(least)
	}
}

// settled checks that a replica lists what the upstream lists, once nothing changes.
func (w *world) settled(ctx context.Context, s *changingupstream.Script, f *front, tally *tally) {
	client := changingupstream.NewClient(f.server, w.Token)
	defer client.Close()
	for _, r := range s.Resources[:len(w.customs[s.Seed])] {
		for _, version := range r.Now().ServedVersions() {
			for _, query := range []string{"?resourceVersion=0", ""} {
				path := r.Collection(version, "")
				err := harness.Until(settleTimeout, func() error {
					want, failed := list(ctx, w.Client, path)
					got, err := list(ctx, client, path+query)
					if err = errors.Join(failed, err); err != nil {
						return err
					}
					return got.CheckEqual(want)
				})
				if err != nil {
					tally.find("not what the upstream lists at the end", "%s%s: %v", path, query, err)
					return
				}
			}
		}
	}
}

func list(ctx context.Context, c *changingupstream.Client, path string) (*changingupstream.List, error) {
	a := c.Send(ctx, changingupstream.Get(path))
	if a.Err != nil || a.Status != http.StatusOK {
		return nil, fmt.Errorf("%s: status %d: %s", path, a.Status, a.Message())
	}
	return changingupstream.NewList(a.Body)
}

// count adds what was compared at replicas to the world's counts.
func (w *world) count(tallies []*tally) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, tally := range tallies {
		if tally.front != control {
			tally.add(func(t *tallyCounts) {
				w.mu.compared += t.objects
				w.mu.here += t.here
			})
		}
	}
}

// leastCompared and leastHere are the numbers of objects that were compared, and of answers of
// a replica itself, below which a script and feed prove nothing.
const leastCompared, leastHere = 100, 30

// floor fails the test if little was compared.
func (w *world) floor(t *testing.T, scripts int) {
	n := scripts * (len(w.fronts) - 1)
	if w.mu.compared < n*leastCompared || w.mu.here < n*leastHere {
		t.Errorf("%d scripts at %d replicas compared %d objects, and had %d answers of replicas themselves: that proves little",
			scripts, len(w.fronts)-1, w.mu.compared, w.mu.here)
	}
}

// report prints a line for the script, and fails the test if something was found.
func (w *world) report(t *testing.T, s *changingupstream.Script, tallies []*tally, took time.Duration) {
	steps, writes := s.Counts()
	w.count(tallies)
	var lines, found []string
	for _, tally := range tallies {
		lines = append(lines, tally.String())
		found = append(found, tally.findings()...)
		if text := tally.errors(); text != "" {
			lines = append(lines, text)
		}
	}
	t.Logf("script %d: %d steps and %d writes in %v, %d kinds of findings\n%s", s.Seed, steps, writes, took.Round(time.Millisecond), len(found), strings.Join(lines, "\n"))
	if len(found) > 0 || os.Getenv(storyVariable) != "" {
		t.Errorf("script %d:\n%s\nstory:\n%s", s.Seed, strings.Join(found, "\n"), s.Log())
	}
}
