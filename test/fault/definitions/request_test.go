package definitions

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"

	"sigs.k8s.io/yaml"
)

// requester sends random requests, one after the other.
type requester struct {
	side   *side
	client *client
	random *rand.Rand
}

func newRequester(s *side, c *client, seed uint64, i int) *requester {
	return &requester{side: s, client: c, random: rand.New(rand.NewPCG(seed, uint64(i)))}
}

// request is a call with the key that its answers are counted by.
type request struct {
	call
	// verb and kind are the key: what is asked, and in which encoding.
	verb, kind string
	// object names the object, for its resource version.
	object string
}

// run sends requests until the context ends.
func (r *requester) run(ctx context.Context) {
	for ctx.Err() == nil {
		req := r.next()
		if req.verb == "watch" {
			r.watch(ctx, req)
			continue
		}
		a := r.client.send(ctx, req.call)
		r.count(req, a)
	}
}

// count counts an answer.
func (r *requester) count(req request, a *answer) {
	t := r.side.tally
	if failure := a.failure(); failure != "" {
		t.count(req.verb, req.kind, failure)
		t.violate(fmt.Sprintf("%s %s: %s over %s", req.verb, req.kind, failure, r.client.proto), fmt.Sprintf("%s %s: %v", req.method, req.path, a.err))
		return
	}
	t.count(req.verb, req.kind, fmt.Sprint(a.status))
	if a.status >= 429 {
		t.explain(req.verb, req.kind, fmt.Sprint(a.status), messageOf(a.body), req.method+" "+req.path)
	}
	if a.status == http.StatusTooManyRequests && a.header.Get("Retry-After") == "" {
		t.violate("429 without Retry-After", req.method+" "+req.path)
	}
	var read struct {
		Metadata struct{ Name, ResourceVersion string }
	}
	if a.status < 300 && req.object != "" && json.Unmarshal(a.body, &read) == nil && read.Metadata.ResourceVersion != "" {
		r.side.versions.Store(req.object, read.Metadata.ResourceVersion)
	}
}

// messageOf returns the message of an error, which is JSON or YAML, or the whole body if it has
// none.
func messageOf(body []byte) string {
	var status struct {
		Message string `json:"message"`
	}
	if yaml.Unmarshal(body, &status) != nil || status.Message == "" {
		return string(body)
	}
	return status.Message
}

func (r *requester) pick(from ...string) string { return from[r.random.IntN(len(from))] }

// accepts are the encodings of answers.
var accepts = map[string]string{
	"json": "application/json", "yaml": "application/yaml",
	"table":             "application/json;as=Table;g=meta.k8s.io;v=v1",
	"metadata":          "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
	"protobuf-metadata": "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
	"metadata-list":     "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
}

// contents are the encodings of bodies.
var contents = map[string]string{
	"json": "application/json", "yaml": "application/yaml", "protobuf": "application/vnd.kubernetes.protobuf",
	"json-patch": "application/json-patch+json", "merge": "application/merge-patch+json",
	"strategic": "application/strategic-merge-patch+json", "apply": "application/apply-patch+yaml",
}

// verbs has each verb as often as it is chosen.
var verbs = strings.Fields(`
	get get get list list watch create create create create create create create create update update update
	patch patch patch patch patch patch delete delete deletecollection
	get/status update/status patch/status get/scale update/scale patch/scale document`)

// documents are those that definitions change.
var documents = map[string]call{
	"groups":        {path: "/apis", accept: "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"},
	"group":         {path: "/apis/" + group, accept: "application/json"},
	"version":       {path: "/apis/" + group + "/" + served2, accept: "application/json"},
	"index":         {path: "/openapi/v3", accept: "application/json"},
	"openapi":       {path: "/openapi/v3/apis/" + group + "/" + served2, accept: "application/json"},
	"openapi-proto": {path: "/openapi/v3/apis/" + group + "/" + served2, accept: "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"},
	"openapi-v2":    {path: "/openapi/v2", accept: "application/json"},
}

// next makes a random request.
func (r *requester) next() request {
	d := r.side.definitions[r.random.IntN(len(r.side.definitions))]
	version := versions[r.random.IntN(len(versions))]
	verb := verbs[r.random.IntN(len(verbs))]
	if verb == "document" {
		kind := r.pick("groups", "group", "version", "version", "index", "openapi", "openapi", "openapi-proto", "openapi-v2")
		req := request{verb: verb, kind: kind, call: documents[kind]}
		req.method = http.MethodGet
		return req
	}
	shape, _ := d.state()
	cluster := shape.ClusterScoped
	if r.random.IntN(20) == 0 {
		cluster = !cluster
	}
	root, namespace := "/apis/"+group+"/"+version, ""
	if !cluster {
		namespace = r.pick("default", "kube-public")
		root += "/namespaces/" + namespace
	}
	name := r.pick("a", "b", "c", "d", "absent")
	base, subresource, _ := strings.Cut(verb, "/")
	req := request{verb: verb, object: strings.Join([]string{d.Plural, namespace, name, subresource}, "/")}
	req.path = root + "/" + d.Plural
	if subresource != "" {
		subresource = "/" + subresource
	}
	switch base {
	case "list", "watch", "deletecollection":
		if namespace != "" && base != "deletecollection" && r.random.IntN(2) == 0 {
			req.path = "/apis/" + group + "/" + version + "/" + d.Plural
		}
		r.collection(&req, base)
	case "get":
		r.read(&req, name+subresource)
	case "delete":
		req.method, req.path, req.kind = http.MethodDelete, req.path+"/"+name, "none"
		if r.random.IntN(3) == 0 {
			req.kind, req.content, req.body = "options", contents["json"], `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`
		}
	default:
		r.write(&req, base, object{d, version, namespace, name, subresource})
	}
	if base != "get" && base != "list" && base != "watch" && r.random.IntN(4) == 0 {
		separator := "?"
		if strings.Contains(req.path, "?") {
			separator = "&"
		}
		req.path += separator + "dryRun=All"
		req.kind += " dry"
	}
	return req
}

// collection completes a request about many objects.
func (r *requester) collection(req *request, base string) {
	var query []string
	if r.random.IntN(3) == 0 {
		query = append(query, r.pick("labelSelector=part%3Done", "fieldSelector=spec.color%3Dblue", "fieldSelector=metadata.name%3Da"))
	}
	req.object = ""
	switch base {
	case "deletecollection":
		req.method, req.kind = http.MethodDelete, "none"
	case "list":
		req.method, req.kind = http.MethodGet, r.pick("json", "json", "yaml", "table", "metadata-list")
		query = append(query, r.pick("resourceVersion=0", "limit=2", "resourceVersion="))
	case "watch":
		req.method, req.kind = http.MethodGet, r.pick("json", "json", "table", "metadata")
		query = append(query, "watch=1", "timeoutSeconds=1", r.pick("resourceVersion=0", "resourceVersion=", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"))
	}
	req.accept = accepts[req.kind]
	if len(query) > 0 {
		req.path += "?" + strings.Join(query, "&")
	}
}

// read completes a GET.
func (r *requester) read(req *request, name string) {
	req.method, req.path = http.MethodGet, req.path+"/"+name
	req.kind = r.pick("json", "json", "yaml", "table", "metadata", "protobuf-metadata")
	req.accept = accepts[req.kind]
	if r.random.IntN(4) == 0 {
		req.path += "?resourceVersion=0"
	}
}

// object is what a write is about.
type object struct {
	*definition
	version, namespace, name, subresource string
}

// write completes a request with an object or a patch in its body.
func (r *requester) write(req *request, base string, o object) {
	req.accept = accepts[r.pick("json", "json", "json", "yaml", "metadata")]
	switch base {
	case "create":
		req.method, req.kind = http.MethodPost, r.pick("json", "json", "json", "yaml", "protobuf")
	case "update":
		req.method, req.kind, req.path = http.MethodPut, r.pick("json", "json", "yaml"), req.path+"/"+o.name+o.subresource
	case "patch":
		req.method, req.kind, req.path = http.MethodPatch, r.pick("json-patch", "merge", "merge", "apply", "apply", "strategic"), req.path+"/"+o.name+o.subresource
	}
	req.content = contents[req.kind]
	color := r.pick("red", "green", "blue", "much too long to be a color")
	replicas := r.random.IntN(120)
	switch req.kind {
	case "json-patch":
		path := map[string]string{"": "/metadata/labels", "/status": "/status", "/scale": "/spec"}[o.subresource]
		req.body = fmt.Sprintf(`[{"op":"add","path":"%s","value":{"replicas":%d}}]`, path, replicas)
		if o.subresource == "" {
			req.body = fmt.Sprintf(`[{"op":"add","path":"/metadata/labels","value":{"part":"%s"}}]`, r.pick("one", "two"))
		}
	case "merge", "strategic":
		req.body = fmt.Sprintf(`{"spec":{"replicas":%d,"color":"%s"},"status":{"replicas":%d}}`, replicas, color, replicas)
		if o.subresource == "/scale" {
			req.body = fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
		}
	default:
		req.body = r.text(req, base, o, color, replicas)
	}
}

// text returns a whole object as the body. JSON is YAML, too.
func (r *requester) text(req *request, base string, o object, color string, replicas int) string {
	metadata := map[string]any{"name": o.name, "labels": map[string]any{"part": r.pick("one", "two")}}
	if o.namespace != "" {
		metadata["namespace"] = o.namespace
	}
	if version, ok := r.side.versions.Load(req.object); ok && base == "update" {
		metadata["resourceVersion"] = version
	}
	body := map[string]any{
		"apiVersion": group + "/" + o.version, "kind": o.Kind, "metadata": metadata,
		"spec": map[string]any{"color": color, "replicas": replicas, "selector": "a=b"}, "status": map[string]any{"replicas": replicas, "phase": "on"},
	}
	if req.kind == "json" && r.random.IntN(4) == 0 {
		body["unknown"] = true
	}
	if o.subresource == "/scale" {
		body["apiVersion"], body["kind"] = "autoscaling/v1", "Scale"
		body["spec"] = map[string]any{"replicas": replicas}
		delete(body, "status")
	}
	text, _ := json.Marshal(body)
	if req.kind == "apply" {
		req.path += "?fieldManager=" + r.pick("one", "two") + "&force=true"
	}
	if req.kind == "yaml" {
		return fmt.Sprintf("# as YAML\n%s\n", text)
	}
	return string(text)
}
