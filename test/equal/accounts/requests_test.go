package accounts

import (
	"encoding/base64"
	"fmt"
)

const (
	templates   = "/api/v1/namespaces/default/podtemplates"
	configMaps  = "/api/v1/namespaces/default/configmaps"
	limitRanges = "/api/v1/namespaces/default/limitranges"
	controllers = "/api/v1/namespaces/default/replicationcontrollers"
	secrets     = "/api/v1/namespaces/default/secrets"
	secret      = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"late"}}`
	widgets     = "/apis/accounts.example/v1/widgets"
)

const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.accounts.example"},
"spec":{"group":"accounts.example","scope":"Cluster","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"size":{"type":"integer"}}},"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}}`

func podTemplate(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"PodTemplate","metadata":{"name":%q,"labels":{"app":"a"}},"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}`, name)
}

func widget(name string, size int) string {
	return fmt.Sprintf(`{"apiVersion":"accounts.example/v1","kind":"Widget","metadata":{"name":%q},"spec":{"size":%d}}`, name, size)
}

func configMap(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"a":"b"}}`, name)
}

func accept(value string) map[string]string { return map[string]string{"Accept": value} }

const (
	protobuf  = "application/vnd.kubernetes.protobuf"
	table     = "application/json;as=Table;v=v1;g=meta.k8s.io"
	metadata  = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	metadata1 = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	groups    = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
)

// compactedToken continues a list at the first revision, which is compacted.
var compactedToken = base64.RawURLEncoding.EncodeToString([]byte(`{"v":"meta.k8s.io/v1","rv":1,"start":"a"}`))

// allRequests is the load without its watches.
func allRequests() []request {
	var all []request
	all = append(all, writeRequests()...)
	for _, path := range []string{templates, widgets} {
		all = append(all, readRequests(path)...)
	}
	all = append(all, errorRequests()...)
	return append(all, documentRequests()...)
}

func writeRequests() []request {
	var all []request
	for i := range 5 {
		all = append(all,
			request{method: "POST", path: templates, body: podTemplate(fmt.Sprint("t", i))},
			request{method: "POST", path: widgets, body: widget(fmt.Sprint("t", i), i)},
			request{method: "POST", path: configMaps, body: configMap(fmt.Sprint("t", i))})
	}
	merge := map[string]string{"Content-Type": "application/merge-patch+json"}
	apply := map[string]string{"Content-Type": "application/apply-patch+yaml"}
	return append(all,
		request{method: "POST", path: templates, body: podTemplate("t0"), want: 409},
		request{method: "POST", path: templates, body: podTemplate("Not a name"), want: 422},
		request{method: "POST", path: templates, body: "{", want: 400},
		request{method: "POST", path: templates, body: "x", header: map[string]string{"Content-Type": "text/plain"}, want: 415},
		request{method: "POST", path: templates, query: "dryRun=All", body: podTemplate("dry")},
		request{method: "POST", path: templates, query: "dryRun=x", body: podTemplate("dry"), want: 422},
		request{method: "POST", path: widgets, query: "fieldValidation=Strict", body: `{"apiVersion":"accounts.example/v1","kind":"Widget","metadata":{"name":"s"},"spec":{"other":1}}`, want: 400},
		request{method: "POST", path: widgets, query: "fieldValidation=Warn", body: `{"apiVersion":"accounts.example/v1","kind":"Widget","metadata":{"name":"s"},"spec":{"other":1}}`},
		request{method: "PATCH", path: templates + "/t1", header: merge, body: `{"metadata":{"labels":{"app":"b"}}}`},
		request{method: "PATCH", path: templates + "/t1", header: merge, body: `{"metadata":{"resourceVersion":"1"}}`, want: 409},
		request{method: "PATCH", path: templates + "/t2", query: "fieldManager=m&force=true", header: apply, body: podTemplate("t2")},
		request{method: "PATCH", path: widgets + "/t2/status", header: merge, body: `{"status":{"a":1}}`},
		request{method: "PUT", path: widgets + "/t3", body: widget("t3", 9), want: 422},
		request{method: "PUT", path: templates + "/missing", body: podTemplate("missing"), want: 404},
		request{method: "DELETE", path: templates + "/t4"},
		request{method: "DELETE", path: templates + "/t4", want: 404},
		request{method: "DELETE", path: widgets, query: "labelSelector=a=b"},
		request{method: "DELETE", path: widgets + "/t4"},
	)
}

// readRequests read a resource that has the objects t0 to t3.
func readRequests(path string) []request {
	get := func(name, query string, header map[string]string, want int) request {
		return request{method: "GET", path: path + name, query: query, header: header, want: want}
	}
	all := []request{
		{method: "GET", path: path, learn: []string{"resourceVersion"}},
		{method: "GET", path: path, query: "limit=2", learn: []string{"continue"}},
		get("", "limit=2&continue={continue}", nil, 0),
		get("", "resourceVersion=0", nil, 0),
		get("", "resourceVersion=0&limit=2", nil, 0),
		get("", "resourceVersion={resourceVersion}", nil, 0),
		get("", "resourceVersion={resourceVersion}&resourceVersionMatch=Exact", nil, 0),
		get("", "resourceVersion={resourceVersion}&resourceVersionMatch=NotOlderThan", nil, 0),
		get("", "labelSelector=app%3Da", nil, 0),
		get("", "fieldSelector=metadata.name%3Dt0", nil, 0),
		get("", "", accept(table), 0),
		get("", "resourceVersion=0", accept(metadata), 0),
		get("", "pretty=true", nil, 0),
		get("", "", accept("application/yaml"), 0),
		get("", "resourceVersion=999999999", nil, 504),
		get("", "resourceVersion=x", nil, 400),
		get("", "limit=x", nil, 400),
		get("", "labelSelector=%3D", nil, 400),
		get("", "fieldSelector=spec.nope%3D1", nil, 400),
		get("", "continue=x", nil, 400),
		get("", "resourceVersionMatch=Exact", nil, 422),
		get("", "", accept("text/plain"), 406),
		get("", "timeout=1ns", nil, 504),
		get("/t0", "", nil, 0),
		get("/t0", "resourceVersion=0", nil, 0),
		get("/t0", "", accept(table), 0),
		get("/t0", "", accept(metadata1), 0),
		get("/t0", "", accept("application/yaml"), 0),
		get("/t0", "timeout=1s", nil, 0),
		get("/t0", "dryRun=All", nil, 0),
		get("/missing", "", nil, 404),
		get("/missing", "", accept("text/plain"), 406),
		get("/t0/nothing", "", nil, 404),
		{method: "OPTIONS", path: path, want: 405},
		{method: "GET", path: path, as: "user", want: 403},
		{method: "GET", path: path + "/t0", as: "user", want: 403},
		{method: "GET", path: path, as: "nobody", want: 403},
		{method: "GET", path: path, as: "stranger", want: 401},
		{method: "GET", path: path, header: map[string]string{"Impersonate-User": "user"}, want: 403},
		{method: "GET", path: path, header: map[string]string{"Impersonate-User": "chief", "Impersonate-Group": "system:masters"}},
	}
	if path == widgets {
		// Kubernetes may still have the old state of other resources.
		all = append(all, get("", "resourceVersion=1&resourceVersionMatch=Exact", nil, 410), get("", "continue="+compactedToken, nil, 410))
	}
	if path == templates {
		all = append(all, get("", "", accept(protobuf), 0), get("/t0", "", accept(protobuf), 0),
			request{method: "GET", path: "/api/v1/podtemplates"}, request{method: "GET", path: "/api/v1/podtemplates", query: "limit=1"},
			request{method: "GET", path: "/api/v1/podtemplates", query: "fieldSelector=metadata.namespace%3Ddefault"})
	}
	return all
}

func errorRequests() []request {
	return []request{
		{method: "GET", path: "/api/v1/nothings", want: 404},
		{method: "GET", path: "/apis/nothing.example/v1/nothings", want: 404},
		{method: "GET", path: "/nothing", want: 404},
		{method: "GET", path: templates + "/"},
		{method: "PUT", path: templates, body: "{}", want: 405},
		{method: "HEAD", path: templates, want: 405},
		{method: "HEAD", path: widgets},
		// It is chance whether the object is written all the same.
		{method: "POST", path: secrets, query: "timeout=1ns", body: secret, want: 504},
		{method: "GET", path: "/api/v1/componentstatuses"},
		{method: "GET", path: "/api/v1/namespaces/default/endpoints"},
		{method: "GET", path: configMaps + "/t0"},
		{method: "GET", path: configMaps},
		{method: "GET", path: limitRanges},
		{method: "GET", path: controllers},
	}
}

func documentRequests() []request {
	all := []request{
		{method: "GET", path: "/apis", header: accept(groups), learn: []string{"etag"}},
	}
	for _, path := range []string{"/api", "/apis", "/apis/apps", "/apis/apps/v1", "/api/v1", "/apis/accounts.example/v1", "/version", "/openapi/v2",
		"/openapi/v3", "/openapi/v3/api/v1", "/healthz", "/livez", "/readyz", "/", "/.well-known/openid-configuration"} {
		all = append(all, request{method: "GET", path: path}, request{method: "GET", path: path, as: "stranger", want: 401})
	}
	return append(all,
		request{method: "GET", path: "/api", header: accept(groups)},
		request{method: "GET", path: "/version", as: "nobody"},
		request{method: "GET", path: "/apis", as: "nobody", want: 403},
	)
}

// watchRequests are open at the same time.
func watchRequests() []request {
	var all []request
	for _, path := range []string{templates, "/api/v1/podtemplates", widgets, configMaps, limitRanges, controllers} {
		watch := func(query string) request { return request{method: "GET", path: path, query: "watch=1&" + query} }
		all = append(all,
			watch("timeoutSeconds=1"), watch("timeoutSeconds=1&resourceVersion=0"),
			watch("timeoutSeconds=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"),
			watch("timeoutSeconds=1&fieldSelector=metadata.name%3Dt0"), watch("timeoutSeconds=1&labelSelector=app%3Da"),
			request{method: "GET", path: path, query: "watch=true&resourceVersion=0&timeoutSeconds=2&fieldSelector=metadata.name%3Dt0", leavesEarly: true},
			request{method: "GET", path: path, query: "watch=1&timeoutSeconds=1", as: "user", want: 403},
			request{method: "GET", path: path, query: "watch=1", as: "stranger", want: 401},
			request{method: "GET", path: path, query: "watch=1&timeoutSeconds=1&resourceVersion=0", header: accept(table)},
			request{method: "GET", path: path, query: "watch=1&resourceVersion=x", want: 500},
			request{method: "GET", path: path, query: "watch=1&timeoutSeconds=x", want: 400},
			request{method: "GET", path: path, query: "watch=1", header: accept("text/plain"), want: 406},
			request{method: "GET", path: path, query: "watch=0"},
		)
	}
	return append(all,
		request{method: "GET", path: "/api/v1/watch/podtemplates", query: "timeoutSeconds=1"},
		request{method: "GET", path: "/api/v1/watch/namespaces/default/podtemplates", query: "timeoutSeconds=1"},
		request{method: "GET", path: "/api/v1/watch/namespaces/default/podtemplates/t0", query: "timeoutSeconds=1"},
		request{method: "GET", path: "/api/v1/watch/podtemplates", query: "timeoutSeconds=1", header: accept(protobuf)},
	)
}
