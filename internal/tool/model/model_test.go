package model

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/tool/agentprofile"
)

// defaultCluster returns the cluster that the flags describe by default.
func defaultCluster() Cluster {
	var c Cluster
	c.addFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return c
}

// simulatedNodes is the size at which runModel simulates latencies, too.
const simulatedNodes = 100_000

// runModel computes a report of one size.
func runModel(t *testing.T, nodes int, change func(*Cluster)) *Report {
	t.Helper()
	c := defaultCluster()
	if change != nil {
		change(&c)
	}
	r, err := Run(Config{Cluster: c, Sizes: []int{nodes}, Seed: 1, Constants: defaultConstants(t), Latencies: nodes == simulatedNodes})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func within(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance*want {
		t.Errorf("%s: got %g, want %g", what, got, want)
	}
}

// entry is a setup of the first size.
func entry(t *testing.T, r *Report, setup string) *Entry {
	t.Helper()
	for i := range r.Sizes[0].Results {
		if e := &r.Sizes[0].Results[i]; e.Setup.Name == setup {
			return e
		}
	}
	t.Fatalf("there is no setup %s", setup)
	return nil
}

// TestWrites adds up by hand the writes of 30,000 nodes in a second: 3,000 leases, 100 statuses,
// and the writes for 30 pods. A pod has 7 writes, 5 events, 4 writes of endpoints and 2 of
// controllers.
func TestWrites(t *testing.T) {
	r := runModel(t, 30_000, nil)
	u := entry(t, r, "kube-apiserver").Usage
	within(t, "writes", u.Etcd.WritesPerSecond, 3000+100+30*(7+5+4+2), 1e-9)
	if u.Etcd.MaxWrites != u.Etcd.WritesPerSecond {
		t.Error("one etcd does not have all writes")
	}
	own := runModel(t, 30_000, func(c *Cluster) { c.OwnEtcd = []string{"leases", "events"} })
	within(t, "most writes, leases apart", entry(t, own, "kube-apiserver").Usage.Etcd.MaxWrites, 3000, 1e-9)
	slow := runModel(t, 30_000, func(c *Cluster) { c.LeaseInterval = 40 * time.Second })
	within(t, "writes with slow leases", entry(t, slow, "kube-apiserver").Usage.Etcd.WritesPerSecond, 750+100+30*18, 1e-9)
}

// TestManyLeases checks a limit that no read path changes: an etcd takes 30,000 writes a second,
// and 280,000 nodes send 34,000.
func TestManyLeases(t *testing.T) {
	for nodes, want := range map[int]bool{240_000: false, 280_000: true, 1_000_000: true} {
		r := runModel(t, nodes, nil)
		for i := range r.Sizes[0].Results {
			e := &r.Sizes[0].Results[i]
			if got := slices.ContainsFunc(e.Exceeded, func(l Limit) bool { return l.Name == "writes of an etcd" }); got != want {
				t.Errorf("%d nodes, %s: too many writes of an etcd: %v, want %v", nodes, e.Setup.Name, got, want)
			}
		}
	}
}

// TestCPUAtRate has writes that are expensive up to 200 a second.
func TestCPUAtRate(t *testing.T) {
	p := &prices{quietRate: 200}
	for perSecond, want := range map[float64]float64{0: 0, 50: 0.2, 200: 0.8, 1000: 0.8 + 0.8} {
		if got := p.cpuAtRate(0.004, 0.001, perSecond); math.Abs(got-want) > 1e-9 {
			t.Errorf("%g a second take %g processors, want %g", perSecond, got, want)
		}
	}
}

// TestProfile counts the reads of one agent on each node.
func TestProfile(t *testing.T) {
	c := defaultCluster()
	c.Nodes = 1000
	p := &agentprofile.Profile{Name: "test", Agents: []agentprofile.Agent{{
		Name: "a", Per: agentprofile.PerNode, Instances: 1,
		Reads: []agentprofile.Read{
			{Resource: "v1/pods", Fields: "spec.nodeName=$node", Mode: agentprofile.ModeWatchList, Encoding: agentprofile.EncodingProtobuf},
			{Resource: "v1/nodes", Mode: agentprofile.ModeWatch, Encoding: agentprofile.EncodingJSON},
			{Resource: "v1/pods", Labels: "app=web", Mode: agentprofile.ModePoll, Encoding: agentprofile.EncodingJSON, Every: agentprofile.Range{Min: 10 * time.Second, Max: 10 * time.Second}},
		},
	}}}
	l := newLoad()
	l.addProfile(&c, p, agentprofile.PerNode, wire{0.7, 100})
	within(t, "watches", l.watches, 2000, 1e-9)
	within(t, "connections", l.connections, 1000, 1e-9)
	within(t, "watchers of a pod's event", l.events["pods"].watchers, 1, 1e-9)
	within(t, "watchers of a node's event", l.events["nodes"].watchers, 1000, 1e-9)
	within(t, "events of nodes", l.events["nodes"].perSecond, 1000/300.0, 1e-9)
	polls := 0.0
	for i := range l.steady {
		if r := &l.steady[i]; r.kind == readList {
			polls += r.count
			within(t, "objects looked at", r.scanned, 30_000, 1e-9)
			within(t, "objects found", r.objects, 300, 1e-9)
		}
	}
	within(t, "polls", polls, 100, 1e-9)
	l = newLoad()
	l.addProfile(&c, p, agentprofile.PerCluster, wire{0.7, 100})
	if l.watches != 0 {
		t.Error("an agent on each node counts as one of the cluster")
	}
}

// TestSetups compares setups in directions that cannot be otherwise.
func TestSetups(t *testing.T) {
	r := runModel(t, 8000, nil)
	direct, own := entry(t, r, "kube-apiserver").Usage, entry(t, r, "millrace serve").Usage
	behind, ownBehind := entry(t, r, "replicas of kube-apiserver").Usage, entry(t, r, "replicas of millrace serve").Usage
	if !(own.Servers.CPU < direct.Servers.CPU && own.Servers.MemoryBytes < direct.Servers.MemoryBytes) {
		t.Error("Millrace needs more than kube-apiserver")
	}
	if !(behind.Servers.CPU < direct.Servers.CPU/2 && behind.Servers.SentBytes < direct.Servers.SentBytes/100 && behind.Servers.Watches < 1000) {
		t.Errorf("a tree does not keep reads from the servers: %+v", behind.Servers)
	}
	if ownBehind.Servers.MemoryBytes > behind.Servers.MemoryBytes {
		t.Error("Millrace needs more memory than kube-apiserver behind a tree")
	}
	if direct.Etcd != behind.Etcd {
		t.Error("etcd depends on who reads")
	}
	larger := runModel(t, 16_000, nil)
	for i := range larger.Sizes[0].Results {
		more, less := larger.Sizes[0].Results[i].Usage, r.Sizes[0].Results[i].Usage
		if more.Servers.CPU <= less.Servers.CPU || more.Servers.MemoryBytes <= less.Servers.MemoryBytes || more.Etcd.DatabaseBytes <= less.Etcd.DatabaseBytes {
			t.Errorf("%s: more nodes need less", larger.Sizes[0].Results[i].Setup.Name)
		}
	}
	optional := runModel(t, 8000, func(c *Cluster) { c.Optional = true })
	if entry(t, optional, "kube-apiserver").Usage.Servers.CPU <= direct.Servers.CPU {
		t.Error("resources that are optional cost nothing")
	}
}

// TestBreaks checks that a limit is reached where the report says, and not well before.
func TestBreaks(t *testing.T) {
	r := runModel(t, 1000, nil)
	for _, b := range r.Breaks {
		if len(b.Limits) == 0 {
			t.Fatalf("%s: nothing breaks", b.Setup.Name)
		}
		if !slices.IsSortedFunc(b.Limits, func(a, b Limit) int { return int(math.Copysign(1, a.Nodes-b.Nodes)) }) {
			t.Errorf("%s: limits are not in the order in which they are reached", b.Setup.Name)
		}
	}
	first := r.Breaks[0].Limits[0]
	reached := func(nodes float64) bool {
		return slices.ContainsFunc(entry(t, runModel(t, int(nodes), nil), "kube-apiserver").Exceeded, func(l Limit) bool { return l.Name == first.Name })
	}
	if reached(first.Nodes*0.9) || !reached(first.Nodes*1.1) {
		t.Errorf("%s is not reached at %g nodes", first.Name, first.Nodes)
	}
}

// TestTree has a tree with given numbers of replicas, and a tree that the model sizes.
func TestTree(t *testing.T) {
	r := runModel(t, 5000, func(c *Cluster) { c.Tree = "2, 4" })
	tiers := entry(t, r, "replicas of kube-apiserver").Usage.Tiers
	if len(tiers) != 2 || tiers[0].Processes != 2 || tiers[1].Processes != 4 {
		t.Fatalf("got %+v", tiers)
	}
	if tiers[0].Watches >= tiers[1].Watches || tiers[1].CPU <= tiers[0].CPU {
		t.Errorf("nodes do not read at the last tier: %+v", tiers)
	}
	r = runModel(t, simulatedNodes, nil)
	tiers = entry(t, r, "replicas of millrace serve").Usage.Tiers
	for i := range tiers {
		u := &tiers[i]
		if u.cpuPerProcess() > sizedCPU*16*1.01 || u.StormBytes > sizedMemory*64e9*1.01 || u.SentBytes/float64(u.Processes) > sizedNetwork*10e9/8*1.01 {
			t.Errorf("depth %d has too few replicas: %+v", i+1, u)
		}
	}
	if events := entry(t, r, "replicas of millrace serve").Events; events == nil || events.P99 <= events.P50 || events.P99 > eventObjectiveSeconds {
		t.Errorf("latencies of a tree that is counted: %+v", events)
	}
}
