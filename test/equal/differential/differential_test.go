package differential

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestReadPathsAgree compares both read paths case by case. Each case can run
// alone: -run 'TestReadPathsAgree/matrix'. With the seed of an earlier run it
// sends the requests of that run, apart from revisions and generated names.
func TestReadPathsAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two servers")
	}
	t.Parallel()
	f := startFixture(t)
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) { c.run(t, f) })
	}
}

// coverage fails if a stored kind has too few objects to compare, or if too few built-in
// kinds were discovered.
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
	// shownMismatches bounds the mismatches that are logged, since one fault
	// may cause very many.
	shownMismatches = 15
)

// agree sends requests to both servers and compares the answers.
func (p *pair) agree(t *testing.T, requests []request) {
	t.Helper()
	start, repeated := time.Now(), p.repeated.Load()
	var next, wrong atomic.Int64
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
	t.Logf("%d requests in %v, %d repeated, %d mismatches", len(requests), time.Since(start).Round(time.Millisecond), p.repeated.Load()-repeated, wrong.Load())
	if wrong.Load() > 0 && !t.Failed() {
		t.Fail()
	}
}

// compare sends one request to both servers. A mismatch only counts if etcd's
// revision did not change meanwhile. An answer to a request with a
// resourceVersion may lag, so it is compared again after both caches have
// caught up.
func (p *pair) compare(r request) (mismatch string) {
	defer func() { p.count(mismatch) }()
	for range retries {
		before := p.revision()
		ours, theirs, err := p.both(r)
		if err != nil {
			return "  " + err.Error()
		}
		last := mismatch
		if mismatch = p.difference(ours, theirs); mismatch == "" || p.oursPassesOn && ours.narrowed != "" && p.agreesAsAsked(r) {
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

// agreesAsAsked reports whether both answers to a request that is narrowed for theirs are the
// same without that. So they are where ours passes it on.
func (p *pair) agreesAsAsked(r request) bool {
	ours, theirs, err := p.bothAsked(r, r)
	return err == nil && p.difference(ours, theirs) == ""
}

// count counts one comparison. An empty mismatch is none.
func (p *pair) count(mismatch string) {
	p.compared.Add(1)
	if mismatch != "" {
		p.mismatched.Add(1)
	}
}

// typeless reports whether Kubernetes has omitted the kind or the version of a
// discovery document. This is a race in Kubernetes: concurrent requests share
// the object, whose kind and version are set for encoding and removed
// afterwards. All kinds of discovery documents contain "API".
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

// bothAsked sends two requests with the same meaning, one to each server.
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

// pages follows continue tokens. Each server must understand the other's
// tokens.
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
