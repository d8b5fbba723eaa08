package differential

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
)

// combinations is the number of combinations for each way to read each kind, unless
// requestsVariable scales it. The kinds of everywhere are read in all combinations.
const combinations = 3

var everywhere = []string{"configmaps", "pods", "services", "widgets"}

// combined returns requests for each kind in each scope, in many combinations.
func combined(kinds []*kind, random *rand.Rand, now int64, perKind int) []request {
	rows := allPairs(random)
	next := 0
	var all []request
	for _, k := range kinds {
		if !k.stored() {
			continue
		}
		count := perKind
		if slices.Contains(everywhere, k.gvr.Resource) && k.gvr.Group != "events.k8s.io" {
			count = len(rows)
		}
		for _, r := range k.reads(random) {
			list := r.path == r.listPath || k.namespaced && r.path == k.listPath(namespaces[0])
			// The plain form is requested for every kind, in the three
			// encodings that are served from bytes.
			all = append(all, r, with(r, func(r *request) { r.accept = protobuf }),
				with(r, func(r *request) { r.query, r.encoding = "pretty=1", "gzip" }))
			for range count {
				all = append(all, rows[next%len(rows)].apply(r, list, now))
				next++
			}
		}
	}
	return all
}

// reads returns the plain ways to read a kind.
func (k *kind) reads(random *rand.Rand) []request {
	listPath := k.listPath("")
	var all []request
	if k.lists {
		all = append(all, request{path: listPath, listPath: listPath})
		if k.namespaced {
			all = append(all, request{path: k.listPath(namespaces[0]), listPath: listPath})
		}
	}
	if k.gets && len(k.keys) > 0 {
		all = append(all, request{path: k.path(k.keys[random.IntN(len(k.keys))]), listPath: listPath})
	}
	return all
}

func with(r request, change func(*request)) request {
	change(&r)
	return r
}

// subresources returns requests that other handlers answer than those for
// objects.
func subresources(kinds []*kind) []request {
	var all []request
	for _, k := range kinds {
		for _, sub := range k.subresources {
			if len(k.keys) == 0 {
				continue
			}
			path := k.path(k.keys[0]) + "/" + sub
			all = append(all, request{path: path, listPath: k.listPath("")},
				request{path: path, accept: protobuf, query: "pretty=1", listPath: k.listPath("")})
		}
	}
	return all
}

// denied returns requests of users without the permission.
func denied(kinds []*kind) []request {
	var all []request
	for i, k := range kinds {
		nobody := http.Header{"Impersonate-User": {"nobody"}}
		for _, path := range []string{k.listPath(""), k.path(firstKey(k))} {
			r := request{path: path, header: nobody}
			if i%3 == 1 {
				r.accept = protobuf
			}
			if i%3 == 2 {
				r.as, r.header, r.query = anonymous, nil, "pretty=1"
			}
			all = append(all, r)
		}
	}
	return all
}

func firstKey(k *kind) string {
	if len(k.keys) > 0 {
		return k.keys[0]
	}
	return "none"
}

// missing returns requests for objects, namespaces and types that do not exist.
func missing(kinds []*kind) []request {
	var all []request
	for i, k := range kinds {
		absent := "absent"
		if k.namespaced {
			absent = namespaces[0] + "/absent"
			all = append(all, request{path: k.listPath("nowhere"), listPath: k.listPath(""), accept: []string{"", protobuf, tableForm}[i%3]})
		}
		for _, accept := range []string{"", protobuf, "text/html", tableForm} {
			all = append(all, request{path: k.path(absent), accept: accept})
		}
		all = append(all, request{path: k.path(absent), query: "resourceVersion=0&pretty=1", encoding: "gzip"})
	}
	return all
}

// otherMethods returns HEAD, OPTIONS and methods that a path does not allow.
func otherMethods(kinds []*kind) []request {
	var all []request
	for _, k := range kinds {
		list, one := k.listPath(""), k.path(firstKey(k))
		all = append(all,
			request{method: http.MethodHead, path: list},
			request{method: http.MethodHead, path: one},
			request{method: http.MethodOptions, path: list},
			request{method: http.MethodPost, path: one},
			request{method: http.MethodPut, path: list},
			request{method: "PROPFIND", path: list},
		)
	}
	return all
}

// parameters are malformed, unknown or unusual query parameters.
var parameters = []string{
	"unknown=1", "unknown", "dryRun=All", "fieldManager=x", "a=1&a=2", "=", "&", "&&pretty=1", "pretty", "pretty=1&pretty=0",
	"pretty=%31", "%70retty=1", "a;b", "a=%zz", "pretty=1;limit=1", "Pretty=1", "resourceversion=0",
	"limit=5", "limit=0", "limit=-1", "limit=abc", "limit=5&resourceVersion=0", "limit=5&resourceVersion=NOW", "limit=500",
	"limit=3&resourceVersion=NOW&resourceVersionMatch=Exact", "limit=", "continue=", "continue=abc",
	"labelSelector=app%3Dweb", "labelSelector=app+in+(web,db)", "labelSelector=!app", "labelSelector=app%3D%3D%3D", "labelSelector=",
	"labelSelector=app%3Dweb&limit=2", "labelSelector=index%3E10", "labelSelector=app!%3Dweb&resourceVersion=0",
	"fieldSelector=metadata.name%3DNAME", "fieldSelector=metadata.namespace%3Dteam-a", "fieldSelector=status.phase%3DPending",
	"fieldSelector=spec.nodeName%3Dnode-1", "fieldSelector=nothing%3D1", "fieldSelector=metadata.name!%3DNAME", "fieldSelector=",
	"fieldSelector=metadata.name%3DNAME&resourceVersion=0", "fieldSelector=metadata.name%3Dabsent",
	"resourceVersion=", "resourceVersion=0&resourceVersion=1", "resourceVersion=&resourceVersion=abc", "resourceVersion=%30", "resourceVersion=00", "resourceVersion=+7",
	"resourceVersion=abc", "resourceVersion=-1", "resourceVersion=1.5", "resourceVersion=99999999999999999999", "resourceVersion=0x7", "resourceVersion=1e3", "resourceVersion=%207",
	"resourceVersionMatch=NotOlderThan", "resourceVersionMatch=Exact", "resourceVersionMatch=junk", "resourceVersionMatch=",
	"resourceVersion=0&resourceVersionMatch=NotOlderThan", "resourceVersion=0&resourceVersionMatch=Exact",
	"resourceVersion=NOW&resourceVersionMatch=NotOlderThan", "resourceVersion=NOW&resourceVersionMatch=Exact",
	"resourceVersion=NOW&resourceVersionMatch=junk", "resourceVersion=1&resourceVersionMatch=Exact",
	"timeoutSeconds=5", "timeoutSeconds=abc", "timeoutSeconds=0", "timeout=25s", "timeout=abc", "timeout=0s", "timeout=-1s", "timeout=1h",
	"sendInitialEvents=true", "sendInitialEvents=false&resourceVersionMatch=NotOlderThan", "allowWatchBookmarks=true", "allowWatchBookmarks=x",
	"watch=false", "watch=0", "shardSelector=", "includeObject=None", "includeObject=Object", "includeObject=junk", "export=true", "exact=true",
	"kind=Pod", "apiVersion=v2", "apiVersion=v1&kind=ListOptions", "ignoreStoreReadErrorWithClusterBreakingPotential=true",
}

// parameterized returns requests with each parameter in each scope.
func parameterized(k *kind, now int64) []request {
	var all []request
	for _, r := range []request{
		{path: k.listPath("")}, {path: k.listPath(namespaces[0])}, {path: k.path(k.keys[0])}, {path: k.listPath(""), accept: protobuf},
	} {
		r.listPath = k.listPath("")
		for _, query := range parameters {
			r.query = substitute(query, now, k)
			all = append(all, r)
		}
	}
	return all
}

// tooNew returns requests for revisions that etcd has not reached. Each takes
// seconds.
func tooNew(k *kind) []request {
	var all []request
	for _, path := range []string{k.listPath(""), k.path(k.keys[0])} {
		all = append(all, request{path: path, query: "resourceVersion=999999999", listPath: k.listPath("")})
	}
	return all
}

// paths returns requests for malformed paths.
func paths() []request {
	var all []request
	for _, path := range []string{
		"/api/v1/configmaps/", "/api/v1/namespaces/team-a/configmaps/", "/api/v1/namespaces/team-a/configmaps/config-1/",
		"//api/v1/configmaps", "/api//v1/configmaps", "/api/v1//configmaps", "/api/v1/namespaces//configmaps", "/api/v1/./configmaps", "/api/v1/pods/../configmaps",
		"/api/v1/namespaces/team-a//configmaps/config-1", "/api/v1/namespaces/team-a/configmaps//config-1",
		"/api/v1/namespaces/team-a/configmaps/config%2D1", "/api/v1/namespaces/team%2Da/configmaps", "/api/v1/config%6Daps", "/api/v1/namespaces/team-a/configmaps/a%2Fb",
		"/api/v1/namespaces/team-a%2Fconfigmaps", "/api/v1/namespaces/team-a/configmaps/config-1%20", "/api/v1/namespaces/team-a/configmaps/%00", "/api/v1/namespaces/team-a/configmaps/..",
		"/api/v1/namespaces/team-a/configmaps/%E4%B8%96", "/api/v1/namespaces/team-a/configmaps/UPPER", "/api/v1/namespaces/team-a/configmaps/odd.dots-and-9",
		"/api/v1/namespaces/team-a/nodes", "/api/v1/namespaces/team-a/nodes/node-1", "/api/v1/namespaces/team-a/namespaces", "/api/v1/configmaps/config-1", "/api/v1/pods/pod-1",
		"/apis/rbac.authorization.k8s.io/v1/namespaces/team-a/clusterroles", "/apis/rbac.authorization.k8s.io/v1/namespaces/team-a/clusterroles/reader-1",
		"/api/v1/namespaces/team-a", "/api/v1/namespaces/team-a/", "/api/v1/namespaces/team-a/status", "/api/v1/namespaces/team-a/finalize", "/api/v1/namespaces/absent", "/api/v1/namespaces",
		"/api/v1/namespaces/absent/pods", "/api/v1/namespaces/absent/pods/x", "/api/v1/nothing", "/api/v1/namespaces/team-a/nothing", "/api/v1/nothing/x", "/api/v1/ConfigMaps", "/api/v1/configmap",
		"/api/v2/pods", "/apis/apps", "/apis/apps/v1", "/apis/apps/v2/deployments", "/apis/apps/deployments", "/apis/nothing.example.com/v1/things", "/apis/elsewhere.example.com/v1/things",
		"/apis/apps/v1/namespaces/team-a/deployments/deployment-1/status", "/apis/apps/v1/namespaces/team-a/deployments/deployment-1/scale", "/apis/apps/v1/namespaces/team-a/deployments/deployment-1/nothing",
		"/api/v1/namespaces/team-a/pods/pod-1/log", "/api/v1/namespaces/team-a/pods/pod-1/exec", "/api/v1/namespaces/team-a/pods/pod-1/binding", "/api/v1/namespaces/team-a/pods/pod-1/eviction",
		"/api/v1/namespaces/team-a/services/service-1/status", "/api/v1/namespaces/team-a/replicationcontrollers/controller-1/scale",
		"/api/v1/watch/configmaps/x/y/z", "/api/v1/proxy/nodes", "/api/v1", "/apis/apps/v1", "/version",
	} {
		all = append(all, request{path: path}, request{path: path, accept: protobuf},
			request{path: path, query: "pretty=1&limit=2", accept: "application/json", encoding: "gzip"})
	}
	return all
}

// sizes returns requests for objects and lists on both sides of the size above
// which answers are compressed, in every form.
func sizes() []request {
	var all []request
	targets := []string{"/api/v1/configmaps", "/api/v1/namespaces/team-b/configmaps", "/api/v1/namespaces/edge/configmaps", "/api/v1/pods", "/api/v1/secrets", "/api/v1/events"}
	for _, name := range []string{"large-200k", "near-above", "near-below"} {
		targets = append(targets, "/api/v1/namespaces/team-b/configmaps/"+name)
	}
	for i := range 16 {
		targets = append(targets, fmt.Sprintf("/api/v1/namespaces/edge/configmaps/edge-%02d", i))
	}
	for _, path := range targets {
		for _, accept := range []string{"application/json", protobuf, "application/yaml"} {
			for _, encoding := range []string{"gzip", "deflate,  gzip ", "gzip;q=1", "GZIP", "*"} {
				all = append(all, request{path: path, accept: accept, encoding: encoding, listPath: "/api/v1/configmaps"})
			}
		}
		all = append(all, request{path: path, query: "pretty=1", encoding: "gzip"}, request{path: path, agent: "curl/8.5.0", encoding: "gzip", as: http1})
	}
	return all
}

// unusualHeaders returns requests with headers that servers may handle wrongly.
func unusualHeaders() []request {
	var all []request
	for _, path := range []string{"/api/v1/configmaps", "/api/v1/namespaces/team-a/pods", "/api/v1/namespaces/team-a/pods/pod-1"} {
		for _, header := range []http.Header{
			{"Accept": {"application/json", protobuf}}, {"Accept": {"text/html", "application/json"}}, {"Accept": {""}}, {"Accept": {","}}, {"Accept": {"junk"}}, {"Accept": {"*/json"}},
			{"Accept": {"application/JSON"}}, {"Accept": {"application/json, "}}, {"Accept": {" application/json"}}, {"Accept": {"text/*, application/json"}},
			{"Accept": {"application/yaml,application/json"}}, {"Accept": {"application/vnd.kubernetes.protobuf;stream=watch"}}, {"Accept": {"application/json;charset=utf-8"}},
			{"Accept": {"*"}}, {"Accept": {"text/plain, */*"}}, {"Accept": {"application/json, text/plain, */*"}}, {"Accept": {"image/webp,*/*"}},
			{"Accept-Encoding": {"br", "gzip"}}, {"Accept-Encoding": {""}}, {"User-Agent": {""}}, {"User-Agent": {"curl"}}, {"User-Agent": {"Wget/1.2"}}, {"User-Agent": {"mozilla/5"}},
			{"If-None-Match": {`"x"`}}, {"If-Modified-Since": {"Mon, 01 Jan 2024 00:00:00 GMT"}}, {"Range": {"bytes=0-10"}}, {"Origin": {"https://elsewhere.example.com"}},
			{"Content-Type": {"application/json"}}, {"Connection": {"close"}}, {"X-Http-Method-Override": {"DELETE"}}, {"Audit-Id": {"11111111-2222-3333-4444-555555555555"}},
			{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}, {"Upgrade": {"h2c"}, "Connection": {"Upgrade"}},
		} {
			as := admin
			if header.Get("Connection") != "" {
				as = http1
			}
			all = append(all, request{path: path, header: header, as: as, listPath: "/api/v1/pods"})
		}
		for _, accept := range dimensions[0] {
			all = append(all, request{path: path, accept: accept, as: http1, encoding: "gzip", listPath: "/api/v1/pods"})
		}
	}
	return all
}
