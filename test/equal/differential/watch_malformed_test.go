package differential

import (
	"fmt"
	"net/http"
	"testing"
)

// malformedWatchCount is the number of malformed requests that are sent.
const malformedWatchCount = 500

// malformedWatchQueries are wrong or unusual parameters of watches. NOW stands
// for the current revision. All but one of these watches end within a second.
var malformedWatchQueries = []string{
	"resourceVersion=abc", "resourceVersion=-1", "resourceVersion=1.5", "resourceVersion=99999999999999999999", "resourceVersion=%207", "resourceVersion=00",
	"resourceVersion=0&resourceVersion=abc", "labelSelector=%3D%3D%3D", "labelSelector=app+in+(", "labelSelector=app%3Dweb,,", "fieldSelector=nothing%3D1", "fieldSelector=metadata.name",
	"fieldSelector=metadata.name+in+(a)", "fieldSelector=metadata.uid%3Dx", "fieldSelector=spec.nothing%3D1", "fieldSelector=metadata.name%3Da,metadata.name%3Db",
	"resourceVersionMatch=NotOlderThan", "resourceVersionMatch=Exact", "resourceVersionMatch=junk", "resourceVersionMatch=Exact&resourceVersion=NOW", "resourceVersionMatch=NotOlderThan&resourceVersion=NOW",
	"sendInitialEvents=true", "sendInitialEvents=false", "sendInitialEvents=junk", "sendInitialEvents=", "sendInitialEvents=true&resourceVersionMatch=Exact", "sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=NOW",
	"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&limit=5", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=abc", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=abc",
	"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=NOW", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=1",
	"sendInitialEvents=false&resourceVersionMatch=NotOlderThan", "sendInitialEvents=1&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&fieldSelector=metadata.name%3Dabsent",
	"allowWatchBookmarks=junk", "limit=abc", "limit=-1", "limit=5", "continue=abc", "continue=abc&resourceVersion=NOW", "timeoutSeconds=abc", "timeout=1s", "timeout=abc", "shardSelector=x",
	"watch=false", "watch=junk", "watch=", "watch=0&watch=1", "pretty=1", "includeObject=junk", "unknown=1", "export=true", "kind=Pod&apiVersion=v2",
	"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999999999", "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=999999999", "a=%zz", "a;b",
}

// malformedWatches sends each query for kinds that Kubernetes caches and for one
// that it does not cache. It also watches paths that cannot be watched.
func (p *pair) malformedWatches(t *testing.T, gen *requestGenerator) {
	now := p.revision()
	var requests []request
	add := func(r request) {
		if r.query != "" {
			r.query += "&"
		}
		r.query += "timeoutSeconds=1"
		requests = append(requests, r)
	}
	for _, resource := range []string{"configmaps", "pods", "events", "nodes", "widgets"} {
		k := named(gen.kinds, resource)
		path := k.listPath("")
		if k.namespaced {
			path = k.listPath(namespaces[2]) // the namespace with the fewest objects
		}
		for i, q := range malformedWatchQueries {
			q = "watch=1&" + substitute(q, now, k)
			if i%4 == 0 {
				q += "&pretty=1"
			}
			add(request{path: path, query: q, accept: []string{"", protobuf, kubectlGet, "application/json" + oneMetadata, protobuf + streamed}[i%5], as: []identity{admin, http1}[i%2]})
			add(request{path: path, query: q})
		}
		for _, accept := range append(append([]string{}, refused...), accepted...) {
			add(request{path: path, query: fmt.Sprintf("watch=1&resourceVersion=%d", now), accept: accept})
		}
	}
	for _, path := range []string{
		"/api/v1/componentstatuses", "/api/v1/bindings", "/api/v1/nothing", "/api/v1/namespaces/team-a/pods/pod-1/log", "/api/v1/namespaces/team-a/pods/pod-1/status", "/apis/authentication.k8s.io/v1/tokenreviews",
		"/api/v1/namespaces/team-a/configmaps/config-1", "/api/v1/namespaces/team-a/configmaps/absent", "/api/v1/nodes/node-1", "/api/v1/namespaces/team-a/nodes", "/api/v1/configmaps/", "/apis/apps/v1/scale", "/version",
		"/api/v1/namespaces/nowhere/pods", "/api/v1/namespaces/UPPER/pods",
		"/api/v1/watch/configmaps", "/api/v1/watch/namespaces/team-a/configmaps", "/api/v1/watch/namespaces/team-a/configmaps/config-1", "/api/v1/watch/namespaces/team-a/configmaps/absent", "/api/v1/watch/nodes", "/api/v1/watch/nodes/node-1",
		"/api/v1/watch/namespaces/team-a", "/api/v1/watch/namespaces", "/api/v1/watch/componentstatuses", "/api/v1/watch/nothing", "/api/v1/watch", "/api/v1/watch/", "/api/v1/watch/configmaps/", "/api/v1/watch/configmaps/config-1", "/api/v1/watch/namespaces/team-a/nodes",
		"/apis/apps/v1/watch/deployments", "/apis/apps/v1/watch/namespaces/team-a/deployments/deployment-1", "/apis/apps/v1/watch/deployments/deployment-1", "/apis/example.com/v1/watch/widgets", "/apis/example.com/v1/watch/namespaces/team-a/widgets",
		"/api/v1/watch/namespaces/team-a/pods/pod-1/status", "/api/v1/watch/namespaces/team-a/configmaps/x/y/z", "/apis/autoscaling/v1/watch/horizontalpodautoscalers",
	} {
		queries := []string{"watch=1", "watch=1&resourceVersion=0", "", "fieldSelector=metadata.name%3Dconfig-1", "fieldSelector=metadata.name%3Dother&watch=1", fmt.Sprintf("resourceVersion=%d", now), "watch=false"}
		if path == "/api/v1/componentstatuses" {
			queries = queries[:1] // Its lists are in a different order each time.
		}
		for _, q := range queries {
			add(request{path: path, query: q})
		}
		add(request{path: path, query: "watch=1", accept: protobuf})
		add(request{path: path, query: "watch=1", accept: kubectlGet, as: http1})
		add(request{path: path, query: "watch=1", header: http.Header{"Impersonate-User": {"nobody"}}})
		add(request{path: path, query: "watch=1", as: anonymous})
		add(request{path: path, query: "watch=1", method: http.MethodHead})
		add(request{path: path, query: "watch=1", method: http.MethodPost})
	}
	gen.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
	p.watchesAgree(t, requests[:min(len(requests), scaled(t, malformedWatchCount))])
}
