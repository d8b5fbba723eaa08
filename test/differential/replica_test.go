package differential

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/harness"
)

// replicaRequests is the number of random requests to each replica.
const replicaRequests = 600

// replicaScripts is the number of scripts of writes that watches of each replica follow.
const replicaScripts = 3

// skew is a replica that takes the stock server for one of another minor version, and answers
// with its JSON.
const skew = "skew"

// replicas are ways to follow the stock server of a fixture.
func (p *pair) replicas() map[string][]string {
	return map[string][]string{
		"etcd": {p.ours.EtcdServers()},
		"api":  {"--follow=secrets"},
		skew:   {"--follow=secrets"},
	}
}

// replica compares a replica in front of the stock server with that server: at rest,
// while objects change, and for requests that it passes on.
func (p *pair) replica(t *testing.T, source string, gen *requestGenerator) {
	upstream := p.theirs.Server
	if source == skew {
		upstream = harness.StartVersionProxy(t, upstream, -1, nil)
	}
	pki := filepath.Join(upstream.DataDir, "pki")
	args := concat(p.replicas()[source], featureGates,
		"--proxy-client-cert-file="+filepath.Join(pki, "front-proxy-client.crt"), "--proxy-client-key-file="+filepath.Join(pki, "front-proxy-client.key"))
	ours := newSide(t, harness.StartReplica(t, upstream, args...))
	both := &pair{tb: t, ours: ours, theirs: newSide(t, upstream), etcd: p.etcd, namespaced: p.namespaced, oursPassesOn: true}
	if source == skew { // what else is passed on is the same with each source
		t.Run("plain", func(t *testing.T) { both.plainUnderSkew(t, gen.kinds) })
		t.Run("random", func(t *testing.T) { both.agree(t, gen.distinct(scaled(t, replicaRequests/3))) })
		t.Run("watches", func(t *testing.T) { both.watchScripts(t, gen.fork().Rand, 1) })
		both.logCounts(t)
		return
	}
	t.Run("random", func(t *testing.T) { both.agree(t, gen.distinct(scaled(t, replicaRequests))) })
	t.Run("paths", func(t *testing.T) { both.agree(t, paths()) })
	t.Run("missing", func(t *testing.T) { both.agree(t, missing(gen.kinds)) })
	t.Run("denied", func(t *testing.T) { both.agree(t, denied(gen.kinds)) })
	t.Run("pages", func(t *testing.T) { both.pages(t) })
	t.Run("watches", func(t *testing.T) { both.watchScripts(t, gen.fork().Rand, replicaScripts) })
	if source == "etcd" { // another feed's watches wait for the upstream's bookmarks
		t.Run("watches at rest", func(t *testing.T) { both.watchAtRest(t, gen.fork()) })
	}
	both.logCounts(t)
}

// plainUnderSkew compares the reads that most clients send, of each built-in kind in the
// version that its group prefers, and checks that the replica answers most of them: objects
// are at rest, so only what no bookmark can prove is passed on.
func (p *pair) plainUnderSkew(t *testing.T, kinds []*kind) {
	var requests []request
	for _, k := range kinds {
		if !k.builtin() || !k.stored() || !k.lists || len(k.keys) == 0 {
			continue
		}
		for _, form := range []request{{}, {accept: typedClient, encoding: "gzip"}} {
			form.query = "resourceVersion=0"
			requests = append(requests, with(form, func(r *request) { r.path = k.listPath("") }),
				with(form, func(r *request) {
					r.path, r.query = k.listPath(""), "resourceVersion=0&limit=500&labelSelector=app%3Dweb"
				}),
				with(form, func(r *request) { r.path = k.path(k.keys[0]) }))
		}
	}
	p.agree(t, requests) // has everything followed
	before := p.counts(t)
	p.agree(t, requests)
	after := p.counts(t)
	answered := 0
	for _, verb := range []string{"LIST", "GET"} {
		for name := range served(verb, 1) {
			answered += int(after[name] - before[name])
		}
	}
	t.Logf("%d of %d requests are answered", answered, len(requests))
	if answered < len(requests)/2 {
		t.Errorf("%d of %d requests are answered, counted %v", answered, len(requests), after)
	}
}

// logCounts logs how many requests the replica has answered, and why it has passed others
// on.
func (p *pair) logCounts(t *testing.T) {
	a, err := p.ours.do(request{path: "/metrics"})
	if err != nil || a.status != http.StatusOK {
		t.Fatalf("read metrics: %v, status %d, body %.200q", err, a.status, a.body)
	}
	for line := range strings.Lines(string(a.body)) {
		if strings.HasPrefix(line, servedMetric) || strings.HasPrefix(line, passedOnMetric) || strings.HasPrefix(line, "millrace_replica_") {
			t.Log(strings.TrimSpace(line))
		}
	}
}
