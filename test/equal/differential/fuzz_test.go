package differential

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path"
	"strconv"
	"strings"
	"testing"
)

// fuzzedPaths are the paths to which fuzzed parameters are added.
var fuzzedPaths = []string{
	"/api/v1/pods", "/api/v1/namespaces/team-a/pods", "/api/v1/namespaces/team-a/configmaps", "/api/v1/events", "/apis/events.k8s.io/v1/namespaces/team-b/events",
	"/api/v1/nodes", "/api/v1/namespaces/team-a/secrets", "/apis/batch/v1/jobs", "/apis/example.com/v1/widgets", "/apis/example.com/v1beta1/namespaces/team-a/widgets",
	"/apis/example.com/v1/gadgets", "/api/v1/namespaces/absent/services", "/api/v1/namespaces", "/apis/resource.k8s.io/v1/resourceslices",
	"/api/v1/namespaces/team-a/pods/pod-1", "/api/v1/nodes/absent", "/apis/apps/v1/namespaces/team-b/deployments/deployment-2",
}

// startFuzz starts servers with a few objects of each kind. It does so only in
// the process that sends requests. Seeds are skipped unless a target is
// selected by name: the matrix sends the same requests to servers that run
// already.
func startFuzz(f *testing.F) *pair {
	f.Helper()
	given := func(name string) string { return flag.Lookup(name).Value.String() }
	worker := given("test.fuzzworker") == "true"
	switch {
	case given("test.fuzz") == "" && !strings.Contains(given("test.run"), "Fuzz"):
		f.Skip("needs servers of its own: give -fuzz or -run with the name of the target")
	case given("test.fuzz") != "" && !worker && !strings.Contains(given("test.run"), "Fuzz"):
		// This process only distributes inputs.
		return nil
	}
	p := startPair(f)
	newObjectSet(p).manifests()
	p.settle()
	// There are no writes from here on, so no cache falls behind again.
	for _, k := range discover(f, p) {
		if k.lists && k.stored() {
			if err := p.catchUp(k.listPath("")); err != nil {
				f.Fatal(err)
			}
		}
	}
	return p
}

const lastWords = 2000

// fuzzed compares the answers to one request.
func (p *pair) fuzzed(t *testing.T, r request) {
	if disputed(r) || p.waits(r) {
		t.Skip("known to differ, or waits")
	}
	if mismatch := p.compare(r); mismatch != "" {
		if _, err := p.theirs.do(r); err != nil {
			t.Skip("cannot be sent")
		}
		log := p.ours.Output()
		t.Errorf("%s\n%s\nour server's last words:\n%s", r, mismatch, log[max(0, len(log)-lastWords):])
	}
}

// waits recognizes requests that take long or cannot be compared: requests for
// future revisions, watches, requests that other processes answer, and
// documents with the server's own address.
func (p *pair) waits(r request) bool {
	target, err := url.Parse(r.path + "?" + r.query)
	if err != nil {
		return true
	}
	for _, word := range []string{"watch", "proxy", "exec", "attach", "portforward", "log"} {
		if strings.Contains(target.Path, word) {
			return true
		}
	}
	if root := path.Clean(target.Path); root == "/api" || root == "/apis" {
		return true
	}
	q := target.Query()
	now := uint64(p.revision())
	for _, version := range q["resourceVersion"] {
		if n, err := strconv.ParseUint(version, 10, 64); err == nil && n > now {
			return true
		}
	}
	for _, token := range q["continue"] {
		if content, ok := readToken(token); ok && content.Revision > int64(now) {
			return true
		}
	}
	return q.Has("watch") || q.Has("timeout") || q.Has("timeoutSeconds")
}

// fuzzGenerator returns a generator and a kind with made-up objects, which make
// seeds.
func fuzzGenerator() (*requestGenerator, *kind) {
	k := &kind{
		labels: map[string][]string{"app": {"web", "db"}, "tier": {"t1"}, "index": {"7"}},
		fields: map[string][]string{"metadata.name": {"pod-1"}, "metadata.namespace": {"team-a"}, "spec.nodeName": {"node-1"}, "status.phase": {"Pending"}},
	}
	k.namespaced, k.gvr.Resource = true, "pods"
	return &requestGenerator{Rand: rand.New(rand.NewPCG(1, 0)), pinned: []int64{1}}, k
}

func FuzzSelectors(f *testing.F) {
	gen, k := fuzzGenerator()
	for i, selector := range brokenLabelSelectors {
		f.Add(uint8(i), selector, "", "")
	}
	for i, selector := range brokenFieldSelectors {
		f.Add(uint8(i), "", selector, "1")
	}
	for i := range 100 {
		f.Add(uint8(i), gen.labelSelector(k, false), gen.fieldSelector(k, false), gen.limit(false))
	}
	p := startFuzz(f)
	f.Fuzz(func(t *testing.T, at uint8, label, field, limit string) {
		q := query{{"labelSelector", label}, {"fieldSelector", field}, {"limit", limit}}.withoutEmpty()
		p.fuzzed(t, request{path: fuzzedPaths[int(at)%len(fuzzedPaths)], query: q.String()})
	})
}

// FuzzPages takes continue tokens either encoded or decoded. A decoded token
// begins with a brace. NOW stands for the current revision.
func FuzzPages(f *testing.F) {
	gen, k := fuzzGenerator()
	versions := append([]string{"", "0", "NOW", "1", "7"}, brokenVersions...)
	for i, version := range versions {
		f.Add(uint8(i), version, "", "", "", "")
		f.Add(uint8(i), version, pick(gen, matches...), gen.limit(false), "", gen.fieldSelector(k, false))
	}
	for i, limit := range brokenLimits {
		f.Add(uint8(i), "", "", limit, "", "")
	}
	for i, content := range tokenContents {
		f.Add(uint8(i), "", "", "1", content, "")
		f.Add(uint8(i), "", "", "2", content, "metadata.namespace=team-a")
		f.Add(uint8(i), "", pick(gen, matches...), "", token(content), gen.fieldSelector(k, false))
	}
	p := startFuzz(f)
	f.Fuzz(func(t *testing.T, at uint8, version, match, limit, continued, field string) {
		now := fmt.Sprint(p.revision())
		continued = strings.ReplaceAll(continued, "NOW", now)
		if strings.HasPrefix(continued, "{") {
			continued = token(continued)
		}
		version = strings.ReplaceAll(version, "NOW", now)
		q := query{{"resourceVersion", version}, {"resourceVersionMatch", match}, {"limit", limit}, {"continue", continued}, {"fieldSelector", field}}.withoutEmpty()
		p.fuzzed(t, request{path: fuzzedPaths[int(at)%len(fuzzedPaths)], query: q.String()})
	})
}

func FuzzAccept(f *testing.F) {
	for i, accept := range append(accepted, refused...) {
		f.Add(uint8(i), strings.ReplaceAll(accept, "LIST", "List"), dimensions[1][i%len(dimensions[1])], "None")
		f.Add(uint8(i*7+1), strings.ReplaceAll(accept, "LIST", ""), "", "")
	}
	for i, accept := range dimensions[0] {
		f.Add(uint8(i), accept, "gzip", "Object")
	}
	p := startFuzz(f)
	f.Fuzz(func(t *testing.T, at uint8, accept, encoding, includeObject string) {
		q := query{{"includeObject", includeObject}}.withoutEmpty()
		p.fuzzed(t, request{path: fuzzedPaths[int(at)%len(fuzzedPaths)], query: q.String(), accept: accept, encoding: encoding})
	})
}

// FuzzRaw sends paths below the API's roots and queries, unchanged.
func FuzzRaw(f *testing.F) {
	for _, parameter := range parameters {
		f.Add("v1/namespaces/team-a/configmaps", parameter)
	}
	for _, r := range paths() {
		if path, ok := strings.CutPrefix(r.path, "/api/"); ok {
			f.Add(path, r.query)
		} else if path, ok := strings.CutPrefix(r.path, "/apis/"); ok {
			f.Add("s/"+path, r.query)
		}
	}
	p := startFuzz(f)
	f.Fuzz(func(t *testing.T, below, query string) {
		r := request{path: "/api/" + below, query: query}
		if group, ok := strings.CutPrefix(below, "s/"); ok {
			r.path = "/apis/" + group
		}
		p.fuzzed(t, r)
	})
}
