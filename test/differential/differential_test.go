package differential

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/test/harness"
)

func TestReadPathsAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two servers")
	}
	s := harness.Seed(t)
	t.Logf("repeat with %s=%d", harness.SeedVariable, s)
	random := rand.New(rand.NewPCG(s, 0))

	p := startPair(t)
	f := newFixtures(p)
	f.create()
	p.settle()
	kinds := discover(t, p)
	survey(t, p, kinds)
	if t.Failed() {
		t.FailNow()
	}
	now := p.revision()
	t.Run("coverage", func(t *testing.T) { coverage(t, kinds) })
	t.Run("combined", func(t *testing.T) { p.agree(t, combined(kinds, random, now)) })
	t.Run("subresources", func(t *testing.T) { p.agree(t, subresources(kinds)) })
	t.Run("denied", func(t *testing.T) { p.agree(t, denied(kinds)) })
	t.Run("missing", func(t *testing.T) { p.agree(t, missing(kinds)) })
	t.Run("methods", func(t *testing.T) { p.agree(t, otherMethods(kinds)) })
	t.Run("paths", func(t *testing.T) { p.agree(t, paths()) })
	t.Run("sizes", func(t *testing.T) { p.agree(t, sizes()) })
	t.Run("headers", func(t *testing.T) { p.agree(t, unusualHeaders()) })
	for _, name := range []string{"configmaps", "pods", "events", "nodes", "widgets"} {
		t.Run("parameters/"+name, func(t *testing.T) { p.agree(t, parameterized(named(kinds, name), now)) })
	}
	t.Run("pages", func(t *testing.T) { p.pages(t) })
	t.Run("tokens", func(t *testing.T) { p.tokens(t, kinds) })
	t.Run("pages of one namespace", func(t *testing.T) { p.narrowed(t, kinds, now) })
	t.Run("too new", func(t *testing.T) {
		p.agree(t, append(tooNew(named(kinds, "configmaps")), append(tooNew(named(kinds, "widgets")), tooNew(named(kinds, "events"))...)...))
	})
	t.Run("after writes", func(t *testing.T) { p.afterWrites(t, f, kinds, random) })
	a := newAsker(t, p, f, kinds, random)
	t.Run("watch", func(t *testing.T) { p.watch(t, a) })
	t.Run("matrix", func(t *testing.T) { p.matrix(t, a) })
	// Kubernetes' caches take up to fifteen seconds to notice a compaction.
	gone := p.compact(t, a)
	a.advance(t, p, f)
	t.Run("under writes", func(t *testing.T) { p.underWrites(t, a) })
	for _, s := range settings {
		t.Run("settings/"+s.name, func(t *testing.T) { p.agreesWith(t, s, a) })
	}
	t.Run("served", func(t *testing.T) { p.served(t, kinds) })
	t.Run("passed on", func(t *testing.T) { p.passedOn(t) })
	t.Run("irregular", func(t *testing.T) { p.irregular(t, kinds, random) })
	t.Run("compacted", func(t *testing.T) { p.compacted(t, a, gone) })
}

// coverage fails for types of which nothing is compared.
func coverage(t *testing.T, kinds []*kind) {
	builtin := 0
	for _, k := range kinds {
		if !k.lists || !k.stored() {
			continue
		}
		if k.builtin() {
			builtin++
		}
		if len(k.keys) < copies {
			t.Errorf("%s: %d objects, want %d: add it to testdata", k.gvr, len(k.keys), copies)
		}
	}
	t.Logf("%d built-in stored resources in all their versions", builtin)
	if builtin < 60 {
		t.Errorf("only %d built-in resources discovered", builtin)
	}
}

func named(kinds []*kind, resource string) *kind {
	for _, k := range kinds {
		if k.gvr.Resource == resource {
			return k
		}
	}
	return nil
}

func substitute(query string, now int64, k *kind) string {
	name := k.keys[0]
	if _, after, ok := strings.Cut(name, "/"); ok {
		name = after
	}
	return strings.NewReplacer("NOW", fmt.Sprint(now), "NAME", name).Replace(query)
}

const (
	senders = 4
	retries = 10
	// shownMismatches bounds what one broken thing floods the log with.
	shownMismatches = 15
)

// agree sends requests to both servers and compares the answers.
func (p *pair) agree(t *testing.T, requests []request) {
	t.Helper()
	start := time.Now()
	var next, wrong atomic.Int64
	p.repeated.Store(0)
	var running sync.WaitGroup
	for range senders {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(requests); i = int(next.Add(1)) - 1 {
				mismatch := p.compare(requests[i])
				if mismatch != "" && wrong.Add(1) <= shownMismatches {
					t.Errorf("%s\n%s", requests[i], mismatch)
				}
			}
		})
	}
	running.Wait()
	t.Logf("%d requests in %v, %d repeated, %d mismatches", len(requests), time.Since(start).Round(time.Millisecond), p.repeated.Load(), wrong.Load())
	if wrong.Load() > 0 && !t.Failed() {
		t.Fail()
	}
}

// compare sends one request to both servers. A mismatch counts when etcd stood
// still meanwhile. Answers that may lag, those to requests with a
// resourceVersion, must also have been unequal after both caches caught up.
func (p *pair) compare(r request) (mismatch string) {
	for range retries {
		before := p.revision()
		ours, theirs, err := p.both(r)
		if err != nil {
			return "  " + err.Error()
		}
		last := mismatch
		if mismatch = p.difference(ours, theirs); mismatch == "" {
			return ""
		}
		p.repeated.Add(1)
		if typeless(r, theirs) {
			continue
		}
		mayLag := strings.Contains(r.query, "resourceVersion")
		if (last != "" || !mayLag) && p.revision() == before {
			return mismatch
		}
		if r.listPath == "" {
			continue
		}
		if err := p.catchUp(r.listPath); err != nil {
			return "  catch up: " + err.Error()
		}
	}
	return mismatch
}

// typeless reports whether Kubernetes has left out the kind of a discovery document, or
// only its version: requests at the same time share the object, for which it sets these
// for encoding and takes them away again. All of these kinds have API in their names.
func typeless(r request, theirs *answer) bool {
	return theirs.status == http.StatusOK && strings.HasPrefix(r.path, "/apis/") && strings.Count(r.path, "/") < 4 &&
		(!bytes.Contains(theirs.body, []byte("API")) || bytes.Contains(theirs.body, []byte("kind")) && !bytes.Contains(theirs.body, []byte("apiVersion")))
}

const pageCount = 8

// both sends a request to both servers at the same time.
func (p *pair) both(r request) (ours, theirs *answer, err error) {
	within, namespace := p.inNamespace(r)
	if ours, theirs, err = p.bothAsked(r, within); err == nil {
		ours.narrowed = namespace
	}
	return ours, theirs, err
}

// bothAsked sends two requests that mean the same.
func (p *pair) bothAsked(r, toTheirs request) (ours, theirs *answer, err error) {
	var theirErr error
	var running sync.WaitGroup
	running.Go(func() { theirs, theirErr = p.theirs.do(toTheirs) })
	asked := r
	if r.zstd {
		asked.encoding = strings.TrimSuffix("zstd, "+r.encoding, ", ")
	}
	if ours, err = p.ours.do(asked); err != nil {
		err = fmt.Errorf("ours: %w", err)
	}
	running.Wait()
	if err == nil && theirErr != nil {
		err = fmt.Errorf("theirs: %w", theirErr)
	}
	return ours, theirs, err
}

// pages follows continue tokens. Each server must understand the other's.
func (p *pair) pages(t *testing.T) {
	for _, path := range []string{"/api/v1/configmaps", "/api/v1/namespaces/team-a/pods", "/apis/example.com/v1/widgets", "/api/v1/nodes"} {
		for _, query := range []string{"limit=2", "limit=7", "limit=50&labelSelector=app%3Dweb", "limit=100&resourceVersionMatch=Exact&resourceVersion=NOW"} {
			query = strings.ReplaceAll(query, "NOW", fmt.Sprint(p.revision()))
			base, _, _ := strings.Cut(query, "&resourceVersion")
			for page := range pageCount {
				r := request{path: path, query: query, listPath: path}
				if mismatch := p.compare(r); mismatch != "" {
					t.Errorf("%s\n%s", r, mismatch)
				}
				a, err := []*side{p.ours, p.theirs}[page%2].do(r)
				if err != nil {
					t.Fatal(err)
				}
				token := continueToken(a.body)
				if token == "" {
					break
				}
				query = base + "&continue=" + url.QueryEscape(token)
			}
		}
	}
}
