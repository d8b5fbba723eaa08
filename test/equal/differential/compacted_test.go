package differential

import (
	"fmt"
	"net/http"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// compaction describes what a compaction removed.
type compaction struct {
	// revision is the oldest revision that remains.
	revision int64
	// pinned and tokens are older than revision.
	pinned []int64
	tokens map[string][]string
}

// compact drops all revisions but the current one, as Kubernetes' compactor
// does.
func (p *pair) compact(t *testing.T, gen *requestGenerator) compaction {
	t.Helper()
	const key = "compact_rev_key"
	written, err := p.etcd.Put(t.Context(), key, "0")
	if err != nil {
		t.Fatalf("write revision: %v", err)
	}
	now := written.Header.Revision
	if _, err := p.etcd.Put(t.Context(), key, fmt.Sprint(now)); err != nil {
		t.Fatalf("write compact revision: %v", err)
	}
	if _, err := p.etcd.Compact(t.Context(), now, clientv3.WithCompactPhysical()); err != nil {
		t.Fatalf("compact: %v", err)
	}
	return compaction{revision: now, pinned: gen.pinned, tokens: gen.tokens}
}

// noticed waits until both servers refuse compacted revisions.
func (p *pair) noticed(t *testing.T, gen *requestGenerator, g compaction) {
	t.Helper()
	old := query{{"resourceVersion", fmt.Sprint(g.revision - 1)}, {"resourceVersionMatch", "Exact"}, {"limit", "1"}}.String()
	for _, k := range gen.kinds {
		for _, s := range []*side{p.ours, p.theirs} {
			p.until("compaction", func() error {
				if gen, err := s.do(request{path: k.listPath(""), query: old}); err != nil || gen.status != http.StatusGone {
					return fmt.Errorf("list a compacted revision of %s at %s: %v %v", k.gvr, s.URL, gen, err)
				}
				return nil
			})
		}
	}
}

// compacted compares lists of compacted revisions. It continues with the tokens
// that the errors offer.
func (p *pair) compacted(t *testing.T, gen *requestGenerator, g compaction) {
	p.noticed(t, gen, g)
	var requests []request
	resources := []string{"pods", "nodes", "widgets", "events", "secrets"}
	for _, resource := range resources {
		path := named(gen.kinds, resource).listPath("")
		for _, accept := range []string{"", protobuf, kubectlGet, "application/yaml"} {
			ask := func(q query) {
				requests = append(requests, request{path: path, accept: accept, listPath: path, query: q.String()})
			}
			ask(query{{"resourceVersion", fmt.Sprint(pick(gen, g.pinned...))}, {"resourceVersionMatch", "Exact"}})
			ask(query{{"resourceVersion", fmt.Sprint(pick(gen, g.pinned...))}, {"limit", "5"}})
			for _, token := range g.tokens[path] {
				ask(query{{"continue", token}, {"limit", "5"}})
				ask(query{{"continue", token}, {"labelSelector", "app"}})
			}
		}
	}
	p.exactly().agree(t, requests)
	for _, resource := range resources {
		path := named(gen.kinds, resource).listPath("")
		for i, token := range g.tokens[path] {
			got, err := []*side{p.ours, p.theirs}[i%2].do(request{path: path, query: query{{"continue", token}}.String()})
			if err != nil {
				t.Fatal(err)
			}
			fresh := continueToken(got.body)
			if got.status != http.StatusGone || fresh == "" {
				t.Errorf("list %s with a compacted token: status %d, fresh token %q: %.300s", path, got.status, fresh, got.body)
				continue
			}
			p.walk(t, request{path: path, listPath: path, accept: gen.accept(true, false)}, query{{"continue", fresh}, {"limit", "50"}}, p.compare)
		}
	}
	p.agree(t, gen.distinct(scaled(t, defaultRequests/20)))
}
