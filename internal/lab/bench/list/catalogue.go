package list

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/fill"
)

// rvUnset is the value of --resource-version for requests without a resourceVersion:
// consistent reads.
const rvUnset = "unset"

// workloadSpec is a workload of the catalogue. It becomes a load.Workload once the objects of
// the cluster are known.
type workloadSpec struct {
	name, description string
	path              string
	query             func(sampleObjects) url.Values // nil: no query
	get               bool                           // path is completed with the sample pod
	// paged workloads have a limit. They never send a resourceVersion, because servers
	// ignore a limit at resourceVersion=0.
	paged       bool
	byDefault   bool
	group       string // another name that chooses the workload
	mayBeEmpty  bool   // an answer without items is valid
	accept      string
	encoding    string
	concurrency int
	body        load.BodyKind
}

// sampleObjects are the objects that workloads request by name or selector: a pod, its node,
// and one of its labels.
type sampleObjects struct {
	Namespace     string `json:"namespace"`
	Pod           string `json:"pod"`
	Node          string `json:"node"`
	LabelSelector string `json:"labelSelector"`
}

// specs returns the catalogue of workloads, in the order in which they run.
func specs() []workloadSpec {
	const nodes, pods = "/api/v1/nodes", "/api/v1/pods"
	byNode := func(s sampleObjects) url.Values { return url.Values{"fieldSelector": {"spec.nodeName=" + s.Node}} }
	byLabel := func(s sampleObjects) url.Values { return url.Values{"labelSelector": {s.LabelSelector}} }
	page := func(sampleObjects) url.Values { return url.Values{"limit": {"500"}} }
	return append([]workloadSpec{
		{name: "nodes-json", description: "all nodes as JSON", path: nodes, byDefault: true,
			accept: testbed.AcceptJSON, concurrency: 20, body: load.JSONList},
		{name: "pods-json", description: "all pods as JSON", path: pods, byDefault: true,
			accept: testbed.AcceptJSON, concurrency: 5, body: load.JSONList},
		{name: "pods-json-gzip", description: "all pods as JSON with gzip", path: pods, byDefault: true,
			accept: testbed.AcceptJSON, encoding: testbed.EncodingGzip, concurrency: 5, body: load.JSONList},
		{name: "pods-protobuf", description: "all pods as protobuf", path: pods, byDefault: true,
			accept: testbed.AcceptProtobuf, concurrency: 5, body: load.ProtobufList},
		{name: "pods-protobuf-gzip", description: "all pods as protobuf with gzip", path: pods, byDefault: true,
			accept: testbed.AcceptProtobuf, encoding: testbed.EncodingGzip, concurrency: 5, body: load.ProtobufList},
		{name: "pods-of-node", description: "pods of one node (fieldSelector) as JSON", path: pods, query: byNode, byDefault: true,
			accept: testbed.AcceptJSON, concurrency: 20, body: load.JSONList},
		{name: "pods-by-label", description: "a 500th of the pods (labelSelector) as JSON", path: pods, query: byLabel, byDefault: true,
			accept: testbed.AcceptJSON, concurrency: 20, body: load.JSONList},
		{name: "pods-limit", description: "the first 500 pods as JSON, resourceVersion unset", path: pods, query: page,
			paged: true, byDefault: true,
			accept: testbed.AcceptJSON, concurrency: 20, body: load.JSONList},
		{name: "pods-table", description: "the first 500 pods as Table, resourceVersion unset", path: pods, query: page,
			paged: true, byDefault: true,
			accept: testbed.AcceptTable, concurrency: 20, body: load.JSONTable},
		{name: "pod-get", description: "one pod as JSON", path: "/api/v1/namespaces/", get: true, byDefault: true,
			accept: testbed.AcceptJSON, concurrency: 20, body: load.JSONObject},
	}, agentSpecs()...)
}

// customWorkload is the name of a workload that is chosen by --custom-objects alone.
const customWorkload = "custom-json"

// customSpec returns the workload that lists all custom objects which were filled in with a
// seed.
func customSpec(seed uint64) (workloadSpec, error) {
	g, err := fill.NewGenerator(fill.Shape{Seed: seed, CRDs: 1, Groups: 1})
	if err != nil {
		return workloadSpec{}, fmt.Errorf("name custom objects: %w", err)
	}
	return workloadSpec{name: customWorkload, description: "all custom objects as JSON", path: g.Definition(0).Path(""),
		accept: testbed.AcceptJSON, concurrency: 5, body: load.JSONList}, nil
}

// agentGroup is the name of all LISTs that a network agent sends when it starts.
const agentGroup = "agent"

// agentSpecs returns the LISTs that a network agent on a node sends when it starts, of the
// resources that every server has.
func agentSpecs() []workloadSpec {
	selector := func(name, value string) func(sampleObjects) url.Values {
		return func(s sampleObjects) url.Values {
			return url.Values{name: {strings.ReplaceAll(value, "$node", s.Node)}}
		}
	}
	all := []workloadSpec{
		{name: "agent-node", description: "its node", path: "/api/v1/nodes", query: selector("fieldSelector", "metadata.name=$node")},
		{name: "agent-pods", description: "the pods of its node", path: "/api/v1/pods", query: selector("fieldSelector", "spec.nodeName=$node")},
		{name: "agent-namespaces", description: "all namespaces", path: "/api/v1/namespaces"},
		{name: "agent-services", description: "services with an address", path: "/api/v1/services",
			query: selector("labelSelector", "!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name")},
		{name: "agent-slices", description: "EndpointSlices of such services", path: "/apis/discovery.k8s.io/v1/endpointslices",
			query: selector("labelSelector", "!service.kubernetes.io/headless")},
		{name: "agent-policies", description: "all network policies", path: "/apis/networking.k8s.io/v1/networkpolicies"},
	}
	for i := range all {
		s := &all[i]
		s.description = "a network agent lists " + s.description
		s.group, s.mayBeEmpty, s.accept, s.concurrency, s.body = agentGroup, i > 1, testbed.AcceptProtobuf, 20, load.ProtobufList
	}
	return all
}

// choice is what --workloads asks for.
type choice struct {
	specs    []workloadSpec  // in the catalogue's order
	sections map[string]bool // by name
}

// choose returns the workloads and sections that the names of --workloads stand for. Without
// names it returns the defaults.
func choose(names []string) (choice, error) {
	all := specs()
	c := choice{sections: map[string]bool{}}
	wanted := map[string]bool{testbed.DefaultWorkloads: len(names) == 0}
	for _, name := range names {
		known := name == testbed.AllWorkloads || name == testbed.DefaultWorkloads || name == agentGroup ||
			slices.ContainsFunc(all, func(s workloadSpec) bool { return s.name == name }) ||
			slices.ContainsFunc(sections(), func(s section) bool { return s.name == name })
		if !known {
			return choice{}, fmt.Errorf("no workload %q: --workloads=help lists them", name)
		}
		wanted[name] = true
	}
	for _, s := range all {
		if wanted[s.name] || s.group != "" && wanted[s.group] || wanted[testbed.AllWorkloads] || wanted[testbed.DefaultWorkloads] && s.byDefault {
			c.specs = append(c.specs, s)
		}
	}
	for _, s := range sections() {
		c.sections[s.name] = wanted[s.name] || wanted[testbed.AllWorkloads] && !s.needsOwnData
	}
	return c, nil
}

// workloadHelp returns the catalogue as text, for --workloads=help.
func workloadHelp() string {
	var b strings.Builder
	for _, s := range specs() {
		mark := ""
		if s.byDefault {
			mark = " (default)"
		}
		fmt.Fprintf(&b, "%-20s %s, %d clients%s\n", s.name, s.description, s.concurrency, mark)
	}
	for _, s := range sections() {
		fmt.Fprintf(&b, "%-20s %s\n", s.name, s.description)
	}
	fmt.Fprintf(&b, "%-20s all workloads whose names begin with %s-\n", agentGroup, agentGroup)
	fmt.Fprintf(&b, "%-20s the workloads with the mark (default); it can be combined with other names\n", testbed.DefaultWorkloads)
	fmt.Fprintf(&b, "%-20s all of these but %s\n", testbed.AllWorkloads, listSlowReaders)
	return b.String()
}

// expectedItems returns the least number of items of a valid response. It returns 0 if data is
// nil, for then the server's objects are not known.
func (s workloadSpec) expectedItems(data *testbed.FillConfig) int {
	switch {
	case data == nil || s.mayBeEmpty:
		return 0
	case s.get || s.query != nil && !s.paged:
		return 1
	case s.paged:
		return min(data.Pods, 500)
	case s.name == customWorkload:
		return data.CustomObjects
	case strings.HasSuffix(s.path, "/nodes"):
		return data.Nodes
	case strings.HasSuffix(s.path, "/secrets"):
		return data.Secrets
	default:
		return data.Pods
	}
}

// workload completes a spec with sample objects. resourceVersion is a number or rvUnset. It
// becomes a suffix of the name, as in "@unset", unless it is 0 or the spec is paged.
func (s workloadSpec) workload(objects sampleObjects, resourceVersion string) (load.Workload, error) {
	query := url.Values{}
	if s.query != nil {
		query = s.query(objects)
	}
	w := load.Workload{Name: s.name, Request: testbed.Request{URI: s.path, Accept: s.accept, Encoding: s.encoding},
		Concurrency: s.concurrency, Body: s.body}
	switch {
	case s.get && objects.Pod == "":
		return w, fmt.Errorf("choose pod for %s: the cluster has none, fill it first", s.name)
	case s.get:
		w.URI += objects.Namespace + "/pods/" + objects.Pod
	case strings.HasSuffix(query.Get("fieldSelector"), "="):
		return w, fmt.Errorf("choose node for %s: no pod has a node: fill the cluster first", s.name)
	case query.Has("labelSelector") && objects.LabelSelector == "":
		return w, fmt.Errorf("choose labels for %s: no pod has any, fill the cluster first", s.name)
	}
	switch {
	case s.paged:
	case resourceVersion == rvUnset:
		w.Name += "@" + rvUnset
	case resourceVersion == "0":
		query.Set("resourceVersion", "0")
	default:
		w.Name += "@" + resourceVersion
		query.Set("resourceVersion", resourceVersion)
	}
	if len(query) > 0 {
		w.URI += "?" + query.Encode()
	}
	return w, nil
}
