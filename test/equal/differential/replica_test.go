package differential

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/support/harness"
)

// replicaRequests is the number of random requests to each replica.
const replicaRequests = 400

// replicaScripts is the number of scripts of writes that watches of each replica follow.
const replicaScripts = 2

// replicaWatchesAtRest is the number of random watches of each replica.
const replicaWatchesAtRest = 64

// skew is a replica that takes the stock server for one of another minor version, and answers
// with what it sends.
const skew = "skew"

// customShare is by how much requests for custom resources are fewer than random ones.
const customShare = 6

// replicas are ways to follow the stock server of a fixture.
func (p *pair) replicas() map[string][]string {
	return map[string][]string{
		"etcd": {p.ours.EtcdServers(), featureGates},
		"api":  {"--follow=secrets", featureGates},
		skew:   {"--follow=secrets", featureGates},
	}
}

// replica compares a replica in front of the stock server with that server: at rest,
// while objects change, and for requests that it passes on.
func (p *pair) replica(t *testing.T, source string, gen *requestGenerator) {
	upstream := p.theirs
	if source == skew {
		upstream = newSide(t, harness.StartVersionProxy(t, upstream.Server, -1, nil))
	}
	both := p.behind(t, upstream, p.replicas()[source]...)
	both.plainWatchLists = source == skew
	if source == skew { // what else is passed on is the same with each source
		t.Run("plain", func(t *testing.T) { both.plainUnderSkew(t, gen.kinds) })
		t.Run("random", func(t *testing.T) { both.agree(t, gen.distinct(scaled(t, replicaRequests/3))) })
		t.Run("watches", func(t *testing.T) { both.watchScripts(t, gen.fork().Rand, 1) })
		both.logCounts(t)
		return
	}
	counted := &tally{}
	both.replicaAgrees(t, gen, replicaLoad{
		requests: scaled(t, replicaRequests), scripts: replicaScripts, handOvers: replicaHandOvers, watchesAtRest: replicaWatchesAtRest, tally: counted, feed: source,
	})
	t.Logf("\n%s", counted)
	both.logCounts(t)
}

// behind starts a replica in front of an upstream, and returns a pair of the two.
func (p *pair) behind(t *testing.T, upstream *side, flags ...string) *pair {
	t.Helper()
	pki := filepath.Join(upstream.DataDir, "pki")
	args := concat(flags, "--proxy-client-cert-file="+filepath.Join(pki, "front-proxy-client.crt"), "--proxy-client-key-file="+filepath.Join(pki, "front-proxy-client.key"))
	ours := newSide(t, harness.StartReplica(t, upstream.Server, args...))
	return &pair{
		tb: t, ours: ours, theirs: upstream, etcd: p.etcd, namespaced: p.namespaced, oursPassesOn: true, ignoresShards: p.ignoresShards,
	}
}

// replicaLoad says how long a replica is compared.
type replicaLoad struct {
	// requests are random ones. handOvers are watches that continue a LIST of the other
	// server. watchesAtRest are random watches.
	requests, scripts, handOvers, watchesAtRest int
	tally                                       *tally
	feed                                        string
}

// replicaAgrees compares a replica, which is ours, with its upstream.
func (p *pair) replicaAgrees(t *testing.T, gen *requestGenerator, load replicaLoad) {
	part := func(name string, compare func(*testing.T)) {
		t.Run(name, func(t *testing.T) { load.tally.part(t, p, load.feed+", "+name, compare) })
	}
	part("random", func(t *testing.T) { p.agree(t, gen.distinct(load.requests)) })
	// Of another minor version, a replica may answer nothing else.
	part("custom", func(t *testing.T) { p.agree(t, gen.onlyCustom().distinct(load.requests/customShare)) })
	part("paths", func(t *testing.T) { p.agree(t, withoutDots(paths())) })
	part("missing", func(t *testing.T) { p.agree(t, missing(gen.kinds)) })
	part("denied", func(t *testing.T) { p.agree(t, denied(gen.kinds)) })
	part("pages", func(t *testing.T) { p.pages(t) })
	part("watches", func(t *testing.T) { p.watchScripts(t, gen.fork().Rand, load.scripts) })
	part("hand-over", func(t *testing.T) { p.handOver(t, gen.fork(), load.handOvers) })
	if load.feed == "etcd" { // another feed's watches wait for the upstream's bookmarks
		part("watches at rest", func(t *testing.T) { p.watchAtRest(t, gen.fork(), load.watchesAtRest) })
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
	for line := range strings.Lines(p.ours.Output()) {
		if strings.Contains(line, "suppressed=") { // why an answer was not encoded
			t.Log(strings.TrimSpace(line))
		}
	}
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

// withoutDots leaves out paths with a part "." or "..", for which a replica does not vouch: users of
// certificates get 400.
func withoutDots(all []request) []request {
	return slices.DeleteFunc(all, func(r request) bool {
		return strings.Contains(r.path+"/", "/./") || strings.Contains(r.path+"/", "/../")
	})
}
