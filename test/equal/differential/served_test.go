package differential

import (
	"bytes"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// counts are the counters of the read tier.
type counts map[string]float64

const (
	servedMetric   = "millrace_read_requests_total"
	passedOnMetric = "millrace_read_passed_on_total"
)

func (p *pair) counts(t *testing.T) counts {
	t.Helper()
	return p.metrics(t, servedMetric, passedOnMetric)
}

// metrics returns our server's metrics whose lines begin with some names.
func (p *pair) metrics(t *testing.T, names ...string) counts {
	t.Helper()
	a, err := p.ours.do(request{path: "/metrics"})
	if err != nil {
		t.Fatal(err)
	}
	c := counts{}
	for line := range bytes.Lines(a.body) {
		name, value, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		if !slices.ContainsFunc(names, func(wanted string) bool { return strings.HasPrefix(name, wanted) }) {
			continue
		}
		if c[name], err = strconv.ParseFloat(value, 64); err != nil {
			t.Fatalf("read metric %q: %v", line, err)
		}
	}
	return c
}

// counted sends requests to our server and returns how much each counter grew.
func (p *pair) counted(t *testing.T, requests []request) counts {
	t.Helper()
	before := p.counts(t)
	for _, r := range requests {
		if _, err := p.ours.do(r); err != nil {
			t.Fatalf("%s: %v", r, err)
		}
	}
	grown := p.counts(t)
	maps.DeleteFunc(grown, func(name string, n float64) bool {
		grown[name] = n - before[name]
		return grown[name] == 0
	})
	return grown
}

// expect sends requests and checks how much the counters grew. The server's own
// clients read through the same tier, so a wrong count is measured again.
func (p *pair) expect(t *testing.T, requests []request, want counts) {
	t.Helper()
	if got := p.tryExpect(t, requests, want); got != nil {
		t.Errorf("counters grew by %v, want %v, after %d requests like %s", got, want, len(requests), requests[0])
	}
}

func (p *pair) tryExpect(t *testing.T, requests []request, want counts) (got counts) {
	t.Helper()
	for range 4 {
		if got = p.counted(t, requests); maps.Equal(got, want) {
			return nil
		}
	}
	return got
}

func served(verb string, n int) counts {
	return counts{fmt.Sprintf("%s{verb=%q}", servedMetric, verb): float64(n)}
}

func passedOn(reason string, n int) counts {
	return counts{fmt.Sprintf("%s{reason=%q}", passedOnMetric, reason): float64(n)}
}

// plain are the ways to read that must be answered from bytes.
var plain = []request{
	{}, {query: "pretty=1"}, {agent: "curl/8.5.0", encoding: "gzip"}, {accept: protobuf}, {accept: "application/json", encoding: "gzip"},
	{query: "resourceVersion=0"}, {query: "resourceVersion=5&unknown=1"}, {accept: protobuf, encoding: "gzip"}, {as: http1},
	{accept: protobuf + ",application/json"}, {accept: "application/json, text/plain, */*"},
	{query: "limit=500", accept: tableForm}, {query: "labelSelector=!absent&timeoutSeconds=9"},
	{query: "shardSelector=" + url.QueryEscape(firstHalf)},
}

// served checks that plain reads of all built-in kinds are answered from bytes.
// It reads all kinds at once. Only if the counters are wrong does it read one
// kind at a time, to find the kinds that are not.
func (p *pair) served(t *testing.T, kinds []*kind) {
	var all []request
	total := counts{}
	var single []func()
	for _, k := range kinds {
		if !k.builtin() || !k.stored() || !k.lists || len(k.keys) == 0 {
			continue
		}
		requests, want := k.plainReads()
		all = append(all, requests...)
		for name, n := range want {
			total[name] += n
		}
		single = append(single, func() { p.expect(t, requests, want) })
	}
	if p.tryExpect(t, all, total) != nil {
		for _, check := range single {
			check()
		}
	}
	t.Logf("%d requests answered from bytes: %v", len(all), total)
}

// foreignTables are the resources whose tables Kubernetes' handlers make: the rows are not
// those of one object each, in their order.
var foreignTables = []string{"evictions", "flowschemas", "storageclasses"}

func (k *kind) plainReads() ([]request, counts) {
	var lists, gets []request
	for _, form := range plain {
		if form.accept == tableForm && slices.Contains(foreignTables, k.gvr.Resource) {
			continue
		}
		lists = append(lists, with(form, func(r *request) { r.path = k.listPath("") }))
		if k.namespaced {
			lists = append(lists, with(form, func(r *request) { r.path = k.listPath(namespaces[1]) }))
		}
		gets = append(gets, with(form, func(r *request) { r.path = k.path(k.keys[0]) }))
	}
	want := served("LIST", len(lists))
	maps.Copy(want, served("GET", len(gets)))
	return append(lists, gets...), want
}

// passedOn checks the reasons for which requests are passed on.
func (p *pair) passedOn(t *testing.T) {
	configs := "/api/v1/namespaces/team-a/configmaps"
	for reason, requests := range map[string][]request{
		"resource": {
			{path: "/apis/apps/v1/namespaces/team-a/deployments/deployment-1/scale"},
			{path: "/api/v1/componentstatuses"}, {path: "/api/v1/nothing"}, {path: "/api/v1/namespaces/team-a/pods/pod-1/status"},
		},
		"path":      {{path: configs + "/"}, {path: "/api/v1/namespaces/team-a/nodes"}, {path: "/api/v1/namespaces/team-a/nodes/node-1"}, {path: "/api/v1/configmaps/config-1"}},
		"parameter": {{path: configs, query: "limit=x"}, {path: configs, query: "labelSelector=%3D"}, {path: configs, query: "a=%zz"}, {path: configs, query: "resourceVersionMatch=Exact"}, {path: configs, query: "shardSelector=x"}},
		"history":   {{path: configs, query: "resourceVersion=1&resourceVersionMatch=Exact"}},
		"accept":    {{path: configs, accept: "application/yaml"}, {path: configs, accept: "text/html"}, {path: configs, accept: "application/*"}, {path: configs, accept: "*"}, {path: configs, accept: tableForm, query: "pretty=1"}, {path: configs, accept: strings.ReplaceAll(protobuf+asMetadataBeta, "LIST", "List")}},
	} {
		t.Run(reason, func(t *testing.T) { p.expect(t, requests, passedOn(reason, len(requests))) })
	}
	t.Run("not counted", func(t *testing.T) {
		p.expect(t, []request{{path: "/version"}, {path: configs, method: "HEAD"}, {path: configs, method: "OPTIONS"}}, counts{})
	})
}
