package differential

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/harness"
)

// replicaRequests is the number of random requests to each replica.
const replicaRequests = 600

// replicaScripts is the number of scripts of writes that watches of each replica follow.
const replicaScripts = 3

// customShare is by how much requests for custom resources are fewer than random ones.
const customShare = 6

// replicas are ways to follow the stock server of a fixture.
func (p *pair) replicas() map[string][]string {
	return map[string][]string{
		"etcd": {p.ours.EtcdServers(), featureGates},
		"api":  {"--follow=secrets", featureGates},
	}
}

// replica compares a replica in front of the stock server with that server: at rest,
// while objects change, and for requests that it passes on.
func (p *pair) replica(t *testing.T, source string, gen *requestGenerator) {
	both := p.behind(t, p.replicas()[source]...)
	counted := &tally{}
	both.replicaAgrees(t, gen, replicaLoad{
		requests: scaled(t, replicaRequests), scripts: replicaScripts, handOvers: replicaHandOvers, tally: counted, feed: source,
	})
	t.Logf("\n%s", counted)
	both.logCounts(t)
}

// behind starts a replica in front of the stock server, and returns a pair of the two.
func (p *pair) behind(t *testing.T, flags ...string) *pair {
	t.Helper()
	pki := filepath.Join(p.theirs.DataDir, "pki")
	args := concat(flags, "--proxy-client-cert-file="+filepath.Join(pki, "front-proxy-client.crt"), "--proxy-client-key-file="+filepath.Join(pki, "front-proxy-client.key"))
	ours := newSide(t, harness.StartReplica(t, p.theirs.Server, args...))
	return &pair{
		tb: t, ours: ours, theirs: p.theirs, etcd: p.etcd, namespaced: p.namespaced, oursPassesOn: true, ignoresShards: p.ignoresShards,
	}
}

// replicaLoad says how long a replica is compared.
type replicaLoad struct {
	// requests are random ones. handOvers are watches that continue a LIST of the other
	// server.
	requests, scripts, handOvers int
	tally                        *tally
	feed                         string
}

// replicaAgrees compares a replica, which is ours, with its upstream.
func (p *pair) replicaAgrees(t *testing.T, gen *requestGenerator, load replicaLoad) {
	part := func(name string, compare func(*testing.T)) {
		t.Run(name, func(t *testing.T) { load.tally.part(t, p, load.feed+", "+name, compare) })
	}
	part("random", func(t *testing.T) { p.agree(t, gen.distinct(load.requests)) })
	// Of another minor version, a replica may answer nothing else.
	part("custom", func(t *testing.T) { p.agree(t, gen.onlyCustom().distinct(load.requests/customShare)) })
	part("paths", func(t *testing.T) { p.agree(t, paths()) })
	part("missing", func(t *testing.T) { p.agree(t, missing(gen.kinds)) })
	part("denied", func(t *testing.T) { p.agree(t, denied(gen.kinds)) })
	part("pages", func(t *testing.T) { p.pages(t) })
	part("watches", func(t *testing.T) { p.watchScripts(t, gen.fork().Rand, load.scripts) })
	part("hand-over", func(t *testing.T) { p.handOver(t, gen.fork(), load.handOvers) })
	if load.feed == "etcd" { // another feed's watches wait for the upstream's bookmarks
		part("watches at rest", func(t *testing.T) { p.watchAtRest(t, gen.fork()) })
	}
}

// logCounts logs how many requests the replica has answered, and why it has passed others
// on.
func (p *pair) logCounts(t *testing.T) {
	a, err := p.ours.do(request{path: "/metrics"})
	if err != nil {
		t.Fatal(err)
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
