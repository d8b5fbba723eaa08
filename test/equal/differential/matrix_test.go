package differential

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	requestsVariable = "MILLRACE_REQUESTS"
	// defaultRequests is the number of random requests in the matrix, unless
	// requestsVariable sets another number.
	defaultRequests = 3000
	// walks is the number of lists that are followed to their last page.
	walks = 60
	// maxPages bounds the pages of a walk.
	maxPages = 40
)

// scaled scales n by the ratio of requestsVariable to defaultRequests.
func scaled(t *testing.T, n int) int {
	given := os.Getenv(requestsVariable)
	if given == "" {
		return n
	}
	requests, err := strconv.Atoi(given)
	if err != nil {
		t.Fatalf("%s: %v", requestsVariable, err)
	}
	return max(1, n*requests/defaultRequests)
}

// newRequestGenerator returns a generator with revisions and tokens.
func newRequestGenerator(t *testing.T, p *pair, f *objectSet, kinds []*kind, random *rand.Rand) *requestGenerator {
	t.Helper()
	gen := &requestGenerator{Rand: random}
	for _, k := range kinds {
		if k.lists && k.stored() {
			gen.kinds = append(gen.kinds, k)
		}
	}
	gen.advance(t, p, f)
	return gen
}

// advance changes some objects. It records the revisions in between, and tokens
// of lists of every kind.
func (gen *requestGenerator) advance(t *testing.T, p *pair, f *objectSet) {
	t.Helper()
	gen.tokens, gen.pinned = map[string][]string{}, []int64{p.revision()}
	const changes = 3
	for range changes {
		for _, resource := range append(bulky, "widgets") {
			f.change(t, named(gen.kinds, resource), gen.Rand, int(p.revision()))
			gen.pinned = append(gen.pinned, p.revision())
		}
	}
	for _, k := range gen.kinds {
		paths := []string{k.listPath("")}
		if k.namespaced {
			paths = append(paths, k.listPath(namespaces[0]), k.listPath(namespaces[1]))
		}
		for _, path := range paths {
			for _, s := range []*side{p.ours, p.theirs} {
				got, err := s.do(request{path: path, query: "limit=2"})
				if err != nil {
					t.Fatal(err)
				}
				if token := continueToken(got.body); token != "" {
					gen.tokens[path] = append(gen.tokens[path], token)
				}
			}
		}
	}
}

// distinct returns n different requests.
func (gen *requestGenerator) distinct(n int) []request {
	seen := map[string]bool{}
	var all []request
	for len(all) < n {
		r := gen.request()
		if key := r.String(); !seen[key] && !disputed(r) {
			seen[key] = true
			all = append(all, r)
		}
	}
	return all
}

// matrix compares all kinds of requests for collections and objects.
func (p *pair) matrix(t *testing.T, gen *requestGenerator) {
	now := p.revision()
	t.Run("selectors", func(t *testing.T) { p.agree(t, slices.DeleteFunc(everySelector(gen.kinds, now), disputed)) })
	t.Run("random", func(t *testing.T) { p.agree(t, gen.distinct(scaled(t, defaultRequests))) })
	t.Run("broken", func(t *testing.T) { p.agree(t, broken(gen)) })
	t.Run("walks", func(t *testing.T) {
		for range scaled(t, walks) {
			if r, q := gen.walkable(); !disputed(with(r, func(r *request) { r.query = q.String() })) {
				p.walk(t, r, q, p.compare)
			}
		}
	})
	t.Run("future", func(t *testing.T) {
		var running sync.WaitGroup
		for _, r := range future(gen) {
			running.Go(func() {
				if mismatch := p.compare(r); mismatch != "" {
					t.Errorf("%s\n%s", r, mismatch)
				}
			})
		}
		running.Wait()
	})
}

// broken returns requests with one illegal parameter each, so that no error
// hides another.
func broken(gen *requestGenerator) []request {
	var all []request
	ask := func(resource string, q query, accept string) {
		k := named(gen.kinds, resource)
		all = append(all, request{path: k.listPath(""), query: q.String(), accept: accept, listPath: k.listPath("")})
		if k.namespaced {
			all = append(all, request{path: k.listPath(namespaces[0]), query: q.String(), accept: accept, listPath: k.listPath("")})
		}
	}
	for _, resource := range []string{"events", "nodes", "widgets"} {
		each := func(name string, values []string) {
			for _, value := range values {
				ask(resource, query{{name, value}}, "")
				ask(resource, query{{name, value}, {"limit", "1"}}, kubectlGet)
			}
		}
		each("labelSelector", brokenLabelSelectors)
		each("fieldSelector", brokenFieldSelectors)
		each("limit", brokenLimits)
		each("resourceVersion", brokenVersions)
		for _, content := range tokenContents {
			content = strings.ReplaceAll(content, "NOW", fmt.Sprint(gen.pinned[len(gen.pinned)-1]))
			ask(resource, query{{"continue", token(content)}}, "")
			ask(resource, query{{"continue", token(content)}, {"limit", "1"}}, protobuf)
		}
		k := named(gen.kinds, resource)
		for _, accept := range refused {
			for _, word := range []string{"", "List"} {
				ask(resource, query{{"limit", "2"}}, strings.ReplaceAll(accept, "LIST", word))
				all = append(all, request{path: k.path(k.keys[0]), accept: strings.ReplaceAll(accept, "LIST", word), listPath: k.listPath("")})
			}
		}
	}
	return all
}

// future returns requests for revisions that etcd has not reached. Each takes
// three seconds.
func future(gen *requestGenerator) []request {
	var all []request
	for i, resource := range []string{"pods", "nodes", "widgets", "events"} {
		k := named(gen.kinds, resource)
		for _, q := range []query{
			{{"resourceVersion", "999999999"}, {"resourceVersionMatch", matches[i%2]}, {"limit", "2"}},
			{{"resourceVersion", "9223372036854775807"}, {"labelSelector", "app=web"}},
			{{"resourceVersion", "18446744073709551615"}},
			{{"continue", token(`{"v":"meta.k8s.io/v1","rv":999999999,"start":"a"}`)}},
		} {
			all = append(all, request{path: k.listPath(""), query: q.String(), listPath: k.listPath(""), accept: []string{"", kubectlGet, metadataClient}[i%3]})
		}
		for _, version := range []string{"9223372036854775806", "9223372036854775808", "18446744073709551615"} {
			exact := query{{"resourceVersion", version}, {"resourceVersionMatch", "Exact"}, {"fieldSelector", "metadata.name=x"}}
			watch := query{{"watch", "1"}, {"resourceVersion", version}, {"timeoutSeconds", "2"}, {"allowWatchBookmarks", "true"}}
			both := []query{exact, watch}
			if resource == "events" {
				both = both[:1] // Kubernetes takes such a version for the oldest one.
			}
			for _, q := range both {
				all = append(all, request{path: k.listPath(firstNamespace(k)), query: q.String(), listPath: k.listPath("")})
			}
		}
	}
	return all
}

// firstNamespace returns "" for cluster-scoped kinds.
func firstNamespace(k *kind) string {
	if k.namespaced {
		return namespaces[0]
	}
	return ""
}

// walkable returns a request for a list that takes several pages.
func (gen *requestGenerator) walkable() (request, query) {
	k := gen.kind()
	limit := pick(gen, 1, 2, 3)
	if len(k.keys) > maxPages {
		limit = pick(gen, 13, 37, 100)
	}
	r := request{path: gen.scope(k, false), listPath: k.listPath("")}
	q := gen.selectors(query{{"limit", fmt.Sprint(limit)}}, k, false)
	switch gen.IntN(4) {
	case 0:
		q = q.with("resourceVersion", fmt.Sprint(pick(gen, gen.pinned...))).with("resourceVersionMatch", "Exact")
	case 1:
		q = q.with("resourceVersion", fmt.Sprint(pick(gen, gen.pinned...)))
	}
	r.accept = gen.accept(true, false)
	if gen.once(3) {
		r.encoding = "gzip"
	}
	return r, q
}

// walk compares all pages of a list. It uses the tokens of both servers in
// turn.
func (p *pair) walk(t *testing.T, r request, q query, compare func(request) string) {
	t.Helper()
	for page := range maxPages {
		r.query = q.String()
		if mismatch := compare(r); mismatch != "" {
			t.Errorf("page %d: %s\n%s", page+1, r, mismatch)
			return
		}
		got, err := []*side{p.ours, p.theirs}[page%2].do(r)
		if err != nil {
			t.Fatal(err)
		}
		token := continueToken(got.body)
		if token == "" {
			return
		}
		q = q.without("resourceVersion", "resourceVersionMatch", "continue").with("continue", token)
	}
}
