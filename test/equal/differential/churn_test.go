package differential

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// churned are the kinds that change while they are read. The writes go to both
// servers in turn.
var churned = []string{"configmaps", "pods", "secrets", "widgets", "events", "jobs"}

const (
	// churnPeriod is long enough to leave CPU to the readers.
	churnPeriod = 5 * time.Millisecond
	churnNames  = 10
	// pinnedReads is how many lists each of pinnedReaders reads during the
	// writes.
	pinnedReads   = 80
	pinnedReaders = 2
)

// churn creates, changes and deletes objects until ctx ends.
func (p *pair) churn(ctx context.Context, t *testing.T, gen *requestGenerator) {
	type target struct {
		client dynamic.NamespaceableResourceInterface
		like   *unstructured.Unstructured
		exists map[string]bool
	}
	var targets []*target
	for i, resource := range churned {
		k := named(gen.kinds, resource)
		client, err := dynamic.NewForConfig([]*side{p.ours, p.theirs}[i%2].quiet())
		if err != nil {
			t.Errorf("make dynamic client: %v", err)
			return
		}
		ns, name, _ := strings.Cut(k.keys[0], "/")
		like, err := client.Resource(k.gvr).Namespace(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Errorf("get %s: %v", k.keys[0], err)
			return
		}
		blank(like)
		targets = append(targets, &target{client: client.Resource(k.gvr), like: like, exists: map[string]bool{}})
	}
	first := p.revision()
	ticker := time.NewTicker(churnPeriod)
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		at := pick(gen, targets...)
		ns, name := pick(gen, namespaces...), fmt.Sprintf("churn-%d-%d", first, gen.IntN(churnNames))
		client, key := at.client.Namespace(ns), ns+"/"+name
		var err error
		switch {
		case !at.exists[key]:
			made := at.like.DeepCopy()
			made.SetNamespace(ns)
			made.SetName(name)
			for _, reference := range []string{"involvedObject", "regarding"} {
				if _, ok := made.Object[reference]; ok {
					_ = unstructured.SetNestedField(made.Object, ns, reference, "namespace")
				}
			}
			_, err = client.Create(ctx, made, metav1.CreateOptions{})
			at.exists[key] = true
		case gen.once(4):
			zero, background := int64(0), metav1.DeletePropagationBackground
			err = client.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &zero, PropagationPolicy: &background})
			delete(at.exists, key)
		default:
			patch := fmt.Sprintf(`{"metadata":{"labels":{"app":%q,"round":"%d"}}}`, pick(gen, "web", "db", "cache"), i%7)
			_, err = client.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		}
		if err != nil && ctx.Err() == nil {
			t.Errorf("churn %s: %v", key, err)
			return
		}
	}
}

// blank removes the fields that only the server may set from a copy of an
// object.
func blank(o *unstructured.Unstructured) {
	for _, field := range []string{"resourceVersion", "uid", "creationTimestamp", "managedFields", "generation"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(o.Object, "status")
	o.SetLabels(nil)
	if o.GetKind() == "Job" {
		unstructured.RemoveNestedField(o.Object, "spec", "selector")
		unstructured.RemoveNestedField(o.Object, "spec", "template", "metadata", "labels")
	}
}

// underWrites compares lists at exact revisions while objects change. All
// answers must agree at the first attempt: there are no retries.
func (p *pair) underWrites(t *testing.T, gen *requestGenerator) {
	first := p.revision()
	ctx, cancel := context.WithCancel(t.Context())
	var writers, readers sync.WaitGroup
	forked := gen.fork()
	writers.Go(func() { p.churn(ctx, t, forked) })
	var read statuses
	for range pinnedReaders {
		forked := gen.fork()
		readers.Go(func() { p.readPinned(t, forked, first, &read) })
	}
	readers.Wait()
	cancel()
	writers.Wait()
	t.Logf("revisions %d to %d, answers by status: %v", first, p.revision(), read.count)
	if read.count[http.StatusOK] < pinnedReads {
		t.Errorf("answers by status: %v: too few were read", read.count)
	}
}

// fork returns a generator for another goroutine, with the same kinds,
// revisions and tokens.
func (gen *requestGenerator) fork() *requestGenerator {
	return &requestGenerator{Rand: rand.New(rand.NewPCG(gen.Uint64(), 0)), kinds: gen.kinds, pinned: gen.pinned, tokens: gen.tokens}
}

// statuses counts answers by status.
type statuses struct {
	mu    sync.Mutex
	count map[int]int
}

func (s *statuses) add(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == nil {
		s.count = map[int]int{}
	}
	s.count[status]++
}

// readPinned lists at revisions from first on, both in one piece and in pages.
func (p *pair) readPinned(t *testing.T, gen *requestGenerator, first int64, read *statuses) {
	once := func(r request) string { return p.once(r, read) }
	for range scaled(t, pinnedReads) {
		if t.Failed() {
			return
		}
		revision := p.revision()
		if gen.once(3) {
			revision = first + gen.Int64N(revision-first+1)
		}
		r, q := gen.at(named(gen.kinds, pick(gen, churned...)), revision)
		switch gen.IntN(3) {
		case 0:
			r = gen.inSomeForm(r, q, false)
			if mismatch := once(r); mismatch != "" {
				t.Errorf("%s\n%s", r, mismatch)
			}
		case 1:
			r.accept = gen.accept(true, false)
			p.walk(t, r, q.with("limit", pick(gen, "3", "29", "100")), once)
		default:
			// A list without a limit is built from cached bytes.
			q = q.without("resourceVersion", "resourceVersionMatch").with("limit", pick(gen, "", "", "3", "29", "100")).withoutEmpty()
			if r.query = q.String(); !disputed(r) {
				p.walkFromNow(t, gen, r, q, once)
			}
		}
	}
}

var listVersion = regexp.MustCompile(`"metadata":\{(?:"continue":"[^"]*",)?(?:"remainingItemCount":\d+,)?"resourceVersion":"(\d+)"`)

// walkFromNow reads the first page at the current revision of one server. It
// then requests the same page from the other server at that exact revision.
func (p *pair) walkFromNow(t *testing.T, gen *requestGenerator, r request, q query, once func(request) string) {
	r.query = q.String()
	sides := []*side{p.ours, p.theirs}
	gen.Shuffle(2, func(i, j int) { sides[i], sides[j] = sides[j], sides[i] })
	begun, err := sides[0].do(r)
	if err != nil {
		t.Error(err)
		return
	}
	version := listVersion.FindSubmatch(begun.body)
	if version == nil {
		t.Errorf("%s: no resource version in %.300s", r, begun.body)
		return
	}
	pinned := q.with("resourceVersion", string(version[1])).with("resourceVersionMatch", "Exact")
	r.query = pinned.String()
	same, err := sides[1].do(r)
	if err != nil {
		t.Error(err)
		return
	}
	ours, theirs := begun, same
	if sides[0] == p.theirs {
		ours, theirs = same, begun
	}
	_, ours.narrowed = p.inNamespace(r)
	if mismatch := p.difference(ours, theirs); mismatch != "" {
		t.Errorf("newest at %s, then pinned at %s: %s\n%s", sides[0].URL, sides[1].URL, r, mismatch)
		return
	}
	p.walk(t, r, pinned, once)
}

// once compares one answer of each server. It only retries if a server did not
// reach the revision in time.
func (p *pair) once(r request, read *statuses) (mismatch string) {
	for range retries {
		ours, theirs, err := p.both(r)
		if err != nil {
			return "  " + err.Error()
		}
		read.add(theirs.status)
		mismatch = p.difference(ours, theirs)
		if ours.status != http.StatusGatewayTimeout && theirs.status != http.StatusGatewayTimeout {
			return mismatch
		}
	}
	return mismatch
}
