// Package definitions changes definitions at random while clients use their objects. Two
// servers, each over an etcd of its own, get the same script of changes and the same kinds of
// requests: this server and the stock one.
//
// A request that meets a change may be answered as of before or after it. So answers are not
// compared one by one. What is checked:
//
//	statuses     none that the stock server never gives to such a request (tally)
//	connections  none is lost, and every request is answered (client)
//	watches      each ends, or continues in order where it ended (mirror)
//	references   none is held when all requests are answered
//	afterwards   each definition is served as its last state says
//
// MILLRACE_CHANGES_DURATION is the length of the changes. MILLRACE_SEED repeats the script of
// changes and each client's choices; how they meet differs from run to run.
package definitions

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/test/support/changingupstream"
	"github.com/millrace/millrace/test/support/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

const (
	// durationVariable is the environment variable with the length of the changes.
	durationVariable = "MILLRACE_CHANGES_DURATION"
	// defaultDuration leaves room for the start of two servers in a minute.
	defaultDuration = 35 * time.Second
	// settleTimeout bounds the wait for requests and definitions at the end. The controller that
	// deletes a definition's objects waits for a minute before it deletes those that were
	// created meanwhile.
	settleTimeout = 100 * time.Second
)

// side is one of the two servers, with what its clients have seen.
type side struct {
	*harness.Server
	name        string
	tally       *tally
	definitions []*definition
	mirrors     []*mirror
	// versions has the resource versions of objects that clients have seen last.
	versions sync.Map
}

func duration(t *testing.T) time.Duration {
	t.Helper()
	given := os.Getenv(durationVariable)
	if given == "" {
		return defaultDuration
	}
	d, err := time.ParseDuration(given)
	if err != nil {
		t.Fatalf("%s: %v", durationVariable, err)
	}
	return d
}

// TestDefinitionsChange is the test that the package's comment describes.
func TestDefinitionsChange(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two servers")
	}
	seed, length := harness.Seed(t), duration(t)
	t.Logf("repeat with %s=%d %s=%s", harness.SeedVariable, seed, durationVariable, length)
	webhook := changingupstream.StartWebhook(t)
	var sides [2]*side
	for i, path := range []string{"millrace", "kubernetes"} {
		s := harness.Launch(t, harness.ShortTempDir(t), "--read-path="+path)
		sides[i] = &side{Server: s, name: path, tally: newTally(), definitions: newDefinitions(webhook)}
	}
	for _, s := range sides {
		s.WaitReady()
	}
	eachSide(sides, func(s *side) { s.run(t, seed, length) })
	sides[0].checkAfterwards(t)
	for _, s := range sides {
		t.Logf("%s: %s", s.name, s.tally.summary())
	}
	ours, theirs := sides[0].tally, sides[1].tally
	if findings := compare(ours, theirs); len(findings) > 0 {
		t.Errorf("%d kinds of findings:\n%s", len(findings), strings.Join(findings, "\n"))
	}
	t.Logf("requests, ours and theirs:\n%s", table(ours, theirs))
	t.Logf("errors of ours:\n%s\nerrors of theirs:\n%s", ours.listMessages(), theirs.listMessages())
	if findings := theirs.violations(); len(findings) > 0 {
		t.Logf("of the stock server alone, which is no failure:\n%s", strings.Join(findings, "\n"))
	}
}

func eachSide(sides [2]*side, run func(*side)) {
	var running sync.WaitGroup
	for _, s := range sides {
		running.Go(func() { run(s) })
	}
	running.Wait()
}

// run makes the definitions, and changes them while clients send requests.
func (s *side) run(t *testing.T, seed uint64, length time.Duration) {
	admin := s.newClient(t, "changes", false)
	for _, d := range s.definitions {
		if err := d.create(t.Context(), admin); err != nil {
			t.Errorf("%s: %v", s.name, err)
			return
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	var running sync.WaitGroup
	for i, d := range s.definitions {
		script := newScript(d, seed, i)
		c := s.newClient(t, "changes", false)
		running.Go(func() { script.run(ctx, c) })
	}
	for i, plan := range clientPlans {
		c := s.newClient(t, "client", plan.http1)
		for j := range plan.workers {
			r := newRequester(s, c, seed, 100*i+j)
			running.Go(func() { r.run(ctx) })
		}
	}
	for i, d := range s.definitions {
		m := newMirror(s, d, s.newClient(t, "mirror", i%2 == 0))
		s.mirrors = append(s.mirrors, m)
		running.Go(func() { m.run(ctx) })
	}
	running.Wait()
	for _, d := range s.definitions {
		d.repair(t.Context(), admin)
	}
}

// clientPlans are the clients: each has one connection. Over HTTP/2 several requests at a time
// share it.
var clientPlans = []struct {
	http1   bool
	workers int
}{{true, 1}, {true, 1}, {true, 1}, {false, 3}, {false, 3}}

// checkAfterwards checks that nothing is left of the changes once all requests are answered.
func (s *side) checkAfterwards(t *testing.T) {
	c := s.newClient(t, "afterwards", false)
	for i, m := range s.mirrors {
		m.client = s.newClient(t, "check of a mirror", i%2 == 0)
		if err := harness.Until(settleTimeout, func() error { return m.check(t.Context()) }); err != nil {
			s.tally.violate("a watch has lost events", err.Error())
		}
	}
	for _, d := range s.definitions {
		if err := s.finish(t.Context(), c, d); err != nil {
			s.tally.violate("definition is not served after the changes", fmt.Sprintf("%s: %v", d.Name(), err))
		}
	}
	if err := harness.Until(settleTimeout, func() error { return s.released(t.Context(), c) }); err != nil {
		s.tally.violate("references are held after all requests", err.Error())
	}
	if output := s.Output(); strings.Contains(output, "panic") {
		s.tally.violate("panic", output)
	}
}

// finish waits until a definition is served as its script has left it.
func (s *side) finish(ctx context.Context, c *client, d *definition) error {
	shape, deleted := d.state()
	if deleted {
		err := harness.Until(settleTimeout, func() error {
			a := c.send(ctx, call{method: http.MethodGet, path: d.Path()})
			if a.status != http.StatusNotFound {
				return fmt.Errorf("the definition does not go: %s", s.describe(ctx, c, d))
			}
			return nil
		})
		if err != nil {
			return err
		}
		(&script{definition: d}).restore(ctx, c, shape)
	}
	return harness.Until(settleTimeout, func() error { return d.served(ctx, c, shape) })
}

// describe describes a definition that does not go, and the objects that it still has.
func (s *side) describe(ctx context.Context, c *client, d *definition) string {
	var read struct {
		Metadata struct{ DeletionTimestamp string }
		Spec     struct{ Scope string }
		Status   struct{ Conditions any }
		Items    []struct {
			Metadata struct{ Name, Namespace, CreationTimestamp, DeletionTimestamp string }
		}
	}
	_ = json.Unmarshal(c.send(ctx, call{method: http.MethodGet, path: d.Path()}).body, &read)
	_ = json.Unmarshal(c.send(ctx, call{method: http.MethodGet, path: "/apis/" + group + "/" + served2 + "/" + d.Plural}).body, &read)
	return fmt.Sprintf("%+v", read)
}

// released returns an error while references are held, or former states have not ended.
func (s *side) released(ctx context.Context, c *client) error {
	a := c.send(ctx, call{method: http.MethodGet, path: "/debug/millrace/crds"})
	var report struct {
		References *int64
		Retired    *int
	}
	if err := json.Unmarshal(a.body, &report); err != nil {
		return fmt.Errorf("read report: %w: %.200s", err, a.body)
	}
	if report.References == nil || *report.References != 0 || report.Retired == nil || *report.Retired != 0 {
		return fmt.Errorf("references are left: %.200s", a.body)
	}
	return nil
}
