package papers

import (
	"fmt"
	"time"
)

const (
	stepLists = "lists"
	// fleetA is how many nodes the paper's cluster has.
	fleetA = 4000
	// unset is the end of the names of workloads without a resource version.
	unset = "@unset"
)

// agentLists are the LISTs that a network agent sends when it starts, by workload of "bench
// list".
func agentLists() []string {
	return []string{"agent-node", "agent-pods", "agent-namespaces", "agent-services", "agent-slices", "agent-policies"}
}

// paperA is LIST in the API server and etcd.
func paperA() *Paper {
	return &Paper{
		Name: "a", Title: "LIST in the API server and etcd, read through the code",
		Original: "Kubernetes 1.24 with 4,000 nodes and 100,000 pods of 20 KB (2 GB as JSON): the pods of one node from etcd and from the watch cache, all pods, and which LISTs a network agent sends when it starts.",
		Differs: []string{
			"Kubernetes 1.37 answers LISTs without a resource version from its watch cache, once that has caught up with etcd. 1.24 read etcd.",
			"Custom objects of about 4 KB stand for CiliumEndpoints, which have 2.",
			"The agent's list has those of its LISTs that every server answers, as protobuf.",
			"A fleet's start is the CPU of one agent's LISTs, times the paper's 4,000 nodes. It is computed, not run.",
		},
		Scale: 0.25, Minutes: "2 minutes",
		steps: func(s size) []step {
			return []step{{name: stepLists, args: []string{
				"list", "--compare", "--floor=false", "--external-etcd", "--services", "--pod-size=20KB", "--namespaces=100",
				"--nodes=" + s.of(4000, 1), "--pods=" + s.of(100_000, 1), "--custom-objects=" + s.of(100_000, 1),
				"--workloads=pods-json,pods-of-node,pods-limit,agent", "--resource-version=unset,0",
				"--concurrency=1", "--warmup=1", s.flag("duration", 3*time.Second), s.flag("settle", time.Second), "--list-memory=0",
			}}}
		},
		view: viewA,
	}
}

func viewA(r *results) []Section {
	d := r.of(stepLists)
	return []Section{largeLists(r, d), smallLists(r, d), agentStart(r, d)}
}

// largeLists are LISTs of all pods.
func largeLists(r *results, d *printout) Section {
	s := Section{Title: "All pods, and all custom objects"}
	s.add(Row{Name: "resource version 0", Unit: unitSeconds, Published: "18.3 s for 2 GB", PublishedValue: r.comparable(18.3), Values: d.requests("pods-json", p50Seconds)})
	s.add(Row{Name: "resource version 0: CPU of the server", Unit: unitSeconds, Values: d.requests("pods-json", func(q *requestResult) float64 { return q.cpuMillis() / 1000 })})
	s.add(Row{Name: "resource version 0: LISTs measured", Unit: unitCount, Values: d.requests("pods-json", func(q *requestResult) float64 { return float64(q.Requests) })})
	s.add(Row{Name: "resource version 0: the very first", Unit: unitSeconds, Values: d.requests("pods-json", func(q *requestResult) float64 { return q.ColdMillis / 1000 })})
	s.add(Row{Name: "resource version unset", Unit: unitSeconds, Values: d.requests("pods-json"+unset, p50Seconds)})
	s.add(Row{Name: "resource version unset: CPU of the server", Unit: unitSeconds, Values: d.requests("pods-json"+unset, func(q *requestResult) float64 { return q.cpuMillis() / 1000 })})
	s.add(Row{Name: "size of the answer", Unit: unitSize, Values: d.requests("pods-json", func(q *requestResult) float64 { return float64(q.Bytes) })})
	s.add(Row{Name: "memory of the server before the first LIST", Unit: unitBytes, Values: d.values(func(s *serverResult) float64 { return float64(s.IdleBytes) })})
	s.add(Row{Name: "most memory during the LISTs", Unit: unitBytes, Values: d.requests("pods-json", func(q *requestResult) float64 {
		if q.Server == nil {
			return 0
		}
		return float64(q.Server.PeakBytes)
	})})
	s.add(Row{Name: "custom objects, one for each pod", Unit: unitSeconds, Published: "11 s for 193 MB", PublishedValue: r.comparable(11), Values: d.requests("custom-json", p50Seconds)})
	s.add(Row{Name: "the same: CPU of the server", Unit: unitSeconds, Values: d.requests("custom-json", func(q *requestResult) float64 { return q.cpuMillis() / 1000 })})
	s.add(Row{Name: "the same: size of the answer", Unit: unitSize, Values: d.requests("custom-json", func(q *requestResult) float64 { return float64(q.Bytes) })})
	return s
}

func p50Seconds(q *requestResult) float64 { return q.Millis.P50 / 1000 }

func p50Millis(q *requestResult) float64 { return q.Millis.P50 }

// smallLists are LISTs of few pods.
func smallLists(r *results, d *printout) Section {
	s := Section{Title: "A few of all pods", Note: "etcd knows no fields: in the paper a LIST of one node's pods without a resource version made the server read 2 GB for an answer of 526 KB."}
	s.add(Row{Name: "pods of one node, resource version unset", Unit: unitMillis, Published: "10 s, from etcd", PublishedValue: r.comparable(10_000), Values: d.requests("pods-of-node"+unset, p50Millis)})
	s.add(Row{Name: "the same: CPU of the server", Unit: unitMillis, Values: d.requests("pods-of-node"+unset, (*requestResult).cpuMillis)})
	s.add(Row{Name: "pods of one node, resource version 0", Unit: unitMillis, Published: "50 to 240 ms", PublishedValue: r.comparable(50), Values: d.requests("pods-of-node", p50Millis)})
	s.add(Row{Name: "the same: CPU of the server", Unit: unitMillis, Values: d.requests("pods-of-node", (*requestResult).cpuMillis)})
	s.add(Row{Name: "the same: size of the answer", Unit: unitSize, Values: d.requests("pods-of-node", func(q *requestResult) float64 { return float64(q.Bytes) })})
	s.add(Row{Name: "first 500 pods (limit)", Unit: unitMillis, Values: d.requests("pods-limit", p50Millis)})
	s.add(Row{Name: "the same: CPU of the server", Unit: unitMillis, Values: d.requests("pods-limit", (*requestResult).cpuMillis)})
	return s
}

// agentStart is what one agent's LISTs cost, and those of a fleet.
func agentStart(r *results, d *printout) Section {
	s := Section{Title: "A network agent starts on each node", Note: fmt.Sprintf("CPU of the server for the %d LISTs of one agent, and for those of %d agents.", len(agentLists()), fleetA)}
	if r.scale != 1 {
		s.Note += " What is listed has the size of this run, not of the paper's cluster."
	}
	for _, rv := range []struct{ suffix, name string }{{unset, "resource version unset"}, {"", "resource version 0"}} {
		// A server where one of the lists failed has no sum.
		sums := d.values(func(*serverResult) float64 { return 0 })
		for _, name := range agentLists() {
			values := d.requests(name+rv.suffix, (*requestResult).cpuMillis)
			for server := range sums {
				if v, ok := values[server]; ok {
					sums[server] += v
				} else {
					delete(sums, server)
				}
			}
			s.add(Row{Name: fmt.Sprintf("%s, %s", name, rv.name), Unit: unitMillis, Values: values})
		}
		fleet := map[string]float64{}
		for server, v := range sums {
			fleet[server] = v * fleetA / 1000
		}
		s.add(Row{Name: "one agent, " + rv.name, Unit: unitMillis, Values: sums})
		s.add(Row{Name: fmt.Sprintf("%d agents, %s", fleetA, rv.name), Unit: unitSeconds, Values: fleet})
	}
	return s
}
