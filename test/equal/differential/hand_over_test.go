package differential

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
	"github.com/millrace/millrace/test/support/etcdtruth"
	"github.com/millrace/millrace/test/support/harness"
)

// replicaHandOvers is the number of watches that continue a LIST of the other server.
const replicaHandOvers = 24

// handedOver are kinds that churn writes.
var handedOver = []string{"configmaps", "pods", "secrets", "widgets"}

// continuation is a LIST of one server, and a watch of the other one from its version.
type continuation struct {
	kind           *watchedKind
	lists, watches *side
	listed         map[watchcheck.Key]int64
	stream         *stream
}

// handOver lists at one server and watches at the other one from the list's version, in
// both directions, while objects change. Each list must be the state at its version. Each
// watch must have everything that came after, once.
func (p *pair) handOver(t *testing.T, gen *requestGenerator, n int) {
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	defer func() { cancel(); writers.Wait() }()
	truth, err := etcdtruth.Follow(ctx, p.etcd, watchedResources())
	if err != nil {
		t.Fatal(err)
	}
	writing, stop := context.WithCancel(ctx)
	defer stop()
	forked := gen.fork()
	writers.Go(func() { p.churn(writing, t, forked) })
	first := p.revision()
	var all []*continuation
	for i := range n {
		c := &continuation{kind: watched(handedOver[i/2%len(handedOver)]), lists: p.ours, watches: p.theirs}
		if i%2 == 1 {
			c.lists, c.watches = p.theirs, p.ours
		}
		if err := c.begin(ctx, pick(gen, "", "", "resourceVersion=0"), pick(gen, "", protobuf)); err != nil {
			t.Fatalf("%s, list at %s and watch at %s: %v", c.kind.Name, c.lists.URL, c.watches.URL, err)
		}
		all = append(all, c)
	}
	stop()
	writers.Wait()
	through := p.revision()
	if err := truth.Wait(ctx, through); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		mismatch := c.check(truth.Truth(c.kind.Name), through)
		if p.count(mismatch); mismatch != "" {
			t.Errorf("%s, list at %s and watch at %s from %d to %d: %s", c.kind.Name, c.lists.URL, c.watches.URL, c.stream.mu.Start.Revision, through, mismatch)
		}
	}
	t.Logf("%d lists continued by watches of the other server, from %d to %d", n, first, through)
}

// watched returns the watched kind with a name.
func watched(name string) *watchedKind {
	return watchedKinds[slices.IndexFunc(watchedKinds, func(k *watchedKind) bool { return k.Name == name })]
}

// begin lists with a query and opens the watch.
func (c *continuation) begin(ctx context.Context, query, accept string) error {
	path := c.kind.listPath(c.kind.roots[0], "")
	a, err := c.lists.do(request{path: path, query: query})
	if err != nil {
		return err
	}
	var list struct {
		Metadata metav1.ListMeta
		Items    []struct{ Metadata metav1.ObjectMeta }
	}
	if err := json.Unmarshal(a.body, &list); err != nil || a.status != http.StatusOK {
		return fmt.Errorf("list: status %d, %w: %.200s", a.status, err, a.body)
	}
	c.listed = map[watchcheck.Key]int64{}
	for i := range list.Items {
		m := &list.Items[i].Metadata
		if c.listed[watchcheck.Key{Namespace: m.Namespace, Name: m.Name}], err = strconv.ParseInt(m.ResourceVersion, 10, 64); err != nil {
			return err
		}
	}
	w := watchRequest{kind: c.kind, request: request{path: path, query: "watch=1&resourceVersion=" + list.Metadata.ResourceVersion}}
	if c.kind.Name != "widgets" { // custom resources have no protobuf
		w.accept = accept
	}
	if w.start.Revision, err = strconv.ParseInt(list.Metadata.ResourceVersion, 10, 64); err != nil {
		return err
	}
	c.stream, err = c.watches.open(ctx, w)
	return err
}

// check waits for the events up to a revision, and describes what is wrong.
func (c *continuation) check(truth *watchcheck.Truth, through int64) (mismatch string) {
	c.stream.mu.Lock()
	start := c.stream.mu.Start
	c.stream.mu.Unlock()
	want := len(truth.ExpectedEvents(&start.Selection, start.Revision, through))
	err := harness.Until(deliveryTimeout, func() error {
		if got, _, over := c.stream.counts(); got < want || over {
			return fmt.Errorf("%d of %d events, ended %t", got, want, over)
		}
		return nil
	})
	if err != nil {
		return err.Error()
	}
	state := map[watchcheck.Key]int64{}
	for key, object := range truth.StateAt(&start.Selection, start.Revision) {
		state[key] = object.Revision
	}
	if !maps.Equal(state, c.listed) {
		return fmt.Sprintf("%d objects are listed, and etcd had %d, or others", len(c.listed), len(state))
	}
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	watch := c.stream.mu.Watch
	// A write that was under way when the writers stopped may come later.
	watch.Frames = slices.DeleteFunc(slices.Clone(watch.Frames), func(f watchcheck.Frame) bool { return f.Revision > through })
	if got := len(watch.Frames); got != want {
		return fmt.Sprintf("%d events, want %d", got, want)
	}
	if err := watchcheck.Validate(truth, &watch); err != nil {
		return err.Error()
	}
	return ""
}
