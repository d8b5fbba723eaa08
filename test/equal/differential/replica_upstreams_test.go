package differential

import (
	"os"
	"strconv"
	"testing"

	"github.com/millrace/millrace/test/support/harness"
)

const (
	// replicaRequestsVariable and replicaScriptsVariable are the numbers of random requests
	// and of scripts of writes for each feed.
	replicaRequestsVariable = "MILLRACE_REPLICA_REQUESTS"
	replicaScriptsVariable  = "MILLRACE_REPLICA_SCRIPTS"
	// longHandOvers is the number of watches that continue a LIST of the other server.
	longHandOvers = 100
	// longWatchesAtRest is the number of random watches.
	longWatchesAtRest = 500
)

// TestReplicaAgrees compares replicas with their upstreams for a long time, for each feed:
//
//	etcd      the etcd of a kube-apiserver, and the rest from its API
//	api       the API of a kube-apiserver
//	millrace  the API of a `millrace serve`
//	newer     the API of a kube-apiserver that seems to be of the next minor version
//
// The environment names the kube-apiserver, which may be of another version than this
// program. The two clusters have nothing in common but their credentials.
func TestReplicaAgrees(t *testing.T) {
	requests, scripts := numberIn(t, replicaRequestsVariable), numberIn(t, replicaScriptsVariable)
	program := harness.Upstream()
	if program == "" || requests == 0 {
		t.Skip("takes long: make differential-replica runs it")
	}
	seed, counted := harness.Seed(t), &tally{}
	t.Logf("repeat with %s=%d", harness.SeedVariable, seed)
	t.Cleanup(func() { t.Logf("\n%s", counted) })
	own := harness.Start(t, harness.ShortTempDir(t), everything...)
	gates := harness.KnownGates(t, program, featureGates)
	t.Logf("%s has %s", program, gates)
	etcd := harness.StartEtcd(t)
	stock := harness.StartUpstreamOver(t, program, own, etcd.EtcdServers(), concat(unannounced, "--runtime-config=api/all=true", gates)...)
	in := alone(t, stock, etcd.Client())
	// Shards are alpha: each version has its own.
	in.ignoresShards = in.emulated(t) != alone(t, own, own.EtcdClient()).emulated(t)

	compare := func(t *testing.T, f *fixture, feed string, flags ...string) {
		both := f.behind(t, f.theirs, flags...)
		both.replicaAgrees(t, f.generator(t), replicaLoad{requests: requests, scripts: scripts, handOvers: longHandOvers, watchesAtRest: longWatchesAtRest, tally: counted, feed: feed})
		both.logCounts(t)
	}
	t.Run("stock", func(t *testing.T) {
		f := &fixture{seed: seed, pair: in}
		f.fill(t, (*objectSet).createKnown)
		t.Run("etcd", func(t *testing.T) { compare(t, f, "etcd", etcd.EtcdServers(), gates) })
		t.Run("api", func(t *testing.T) { compare(t, f, "api", "--follow=secrets", gates) })
		t.Run("newer", func(t *testing.T) { f.newer(t, own, gates, requests/10, counted) })
	})
	t.Run("millrace", func(t *testing.T) {
		f := &fixture{seed: seed, pair: alone(t, own, own.EtcdClient())}
		f.fill(t, (*objectSet).create)
		compare(t, f, "millrace", "--follow=secrets", featureGates)
	})
}

// numberIn returns the number that an environment variable has, 0 if it has none.
func numberIn(t *testing.T, variable string) int {
	t.Helper()
	given := os.Getenv(variable)
	if given == "" {
		return 0
	}
	n, err := strconv.Atoi(given)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}
