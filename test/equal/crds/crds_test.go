// Package crds compares the server with the stock server for custom resources. Two servers,
// each over an etcd of its own, get the same requests. They must give the same answers,
// reach the same conditions, show the same in discovery and OpenAPI, and store the same
// bytes.
//
// Identities, versions and times differ between any two servers, and are replaced first
// (normaliser). The results of controllers are compared after waiting for a condition.
// All other answers are compared at once.
//
// MILLRACE_SEED repeats a run. MILLRACE_CRD_SEEDS is the number of random definitions.
// MILLRACE_CRD_TRACE names a file for the stock server's answers.
package crds

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/test/support/harness"
	"github.com/millrace/millrace/test/support/shipped"
)

func TestMain(m *testing.M) { harness.Main(m) }

// TestServersAgree runs all phases on one pair of servers, since a start takes seconds.
func TestServersAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two servers")
	}
	p := startPair(t)
	t.Logf("repeat with %s=%d", harness.SeedVariable, p.seed)
	t.Run("tampered", p.findTampering)
	p.phase(t, "scripts", scriptNames(t), func(t *testing.T, r *run, name string) { r.script(t, name) })
	p.phase(t, "shipped", slices.Sorted(maps.Keys(shipped.Modules)), func(t *testing.T, r *run, name string) { r.shipped(t, name) })
	p.phase(t, "random", randomNames(t), func(_ *testing.T, r *run, name string) { r.random(name) })
	t.Logf("compared %d requests, %d definitions, %d objects and events", p.requests.Load(), p.definitions.Load(), p.objects.Load())
}

// maxConcurrentRuns is the number of runs that share the servers. Runs mostly wait: an object
// cannot be created before its definition was established for two seconds.
const maxConcurrentRuns = 8

// phase runs a function for each name, several at a time. Then it compares the documents of
// all groups, and deletes all definitions.
func (p *pair) phase(t *testing.T, what string, names []string, do func(*testing.T, *run, string)) {
	start := time.Now()
	var mu sync.Mutex
	var runs []*run
	t.Run(what, func(t *testing.T) {
		slots := make(chan struct{}, maxConcurrentRuns)
		var running sync.WaitGroup
		for _, name := range names {
			running.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				t.Run(name, func(t *testing.T) {
					r := newRun(t, p, strings.ReplaceAll(name, "_", "-")+".example.com")
					mu.Lock()
					runs = append(runs, r)
					mu.Unlock()
					do(t, r, name)
				})
			})
		}
		running.Wait()
	})
	ran := time.Since(start)
	t.Run(what+" together", func(t *testing.T) { p.together(t, runs) })
	t.Logf("%s: %v, and %v together", what, ran.Round(time.Millisecond), (time.Since(start) - ran).Round(time.Millisecond))
}

// together compares the documents of all groups, and deletes all definitions.
func (p *pair) together(t *testing.T, runs []*run) {
	all := newRun(t, p, "")
	for _, r := range runs {
		for name, group := range r.defined {
			all.defined[name] = group
		}
	}
	all.at = "all groups"
	definitions, err := all.definitions()
	if err != nil {
		t.Fatal(err)
	}
	var everywhere []string
	for _, d := range definitions {
		if !established(d) {
			continue
		}
		for _, v := range d.Spec.Versions {
			if v.Served {
				everywhere = append(everywhere, `"/apis/`+d.Spec.Group+`/`+v.Name+`/`)
			}
		}
	}
	all.at = "all groups: discovery"
	all.compareWhenReady("/apis", accepts["aggregated"], func([]byte) error { return nil })
	all.compareWhenReady("/apis", "application/json", func([]byte) error { return nil })
	all.at = "all groups: OpenAPI v2"
	all.document("/openapi/v2", everywhere)
	all.at = "all groups: index of OpenAPI v3"
	all.index()
	all.remove()
}

// remove deletes this run's definitions on both sides, and compares what is left.
func (r *run) remove() {
	for name := range r.defined {
		r.at = "delete " + name
		c := jsonCall("DELETE", definitionsPath+"/"+name, "")
		r.report("", r.pair.both(func(_ int, side *side) error {
			_, err := side.do(c)
			return err
		}))
	}
	for name := range r.defined {
		r.at = "delete " + name
		c := jsonCall("DELETE", definitionsPath+"/"+name, "")
		r.eventually(func() (string, error) {
			return "", r.pair.both(func(_ int, side *side) error {
				a, err := side.do(c)
				if err == nil && a.status != 404 {
					err = fmt.Errorf("delete: status %d", a.status)
				}
				return err
			})
		})
	}
	r.at = "what is left"
	r.withoutDocuments()
	for _, group := range r.defined {
		r.compareWhenReady("/apis/"+group, "application/json", func(body []byte) error {
			if strings.Contains(string(body), `"APIGroup"`) {
				return fmt.Errorf("%s is still served", group)
			}
			return nil
		})
	}
	r.compareStored(nil)
}
