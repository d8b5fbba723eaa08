package replica

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

const (
	namespace = "default"
	// benchLabel is a label of every object, and an annotation with the filling text.
	benchLabel = "bench.millrace.io/replica"
	// textBytes is the size of that annotation. It makes objects as large as real ones, which have
	// two or three kilobytes of JSON.
	textBytes = 1200
	// writeVerb is the verb of all measured writes.
	writeVerb = http.MethodPatch
)

// watchedResource is a resource of which each client has an informer.
type watchedResource struct {
	name       string // as in --follow
	root       string // the API and version
	kind       string
	apiVersion string
	global     bool           // its objects are in no namespace
	content    map[string]any // of each object, except its metadata
}

// plural returns the resource's name without its group.
func (r watchedResource) plural() string {
	plural, _, _ := strings.Cut(r.name, ".")
	return plural
}

// collection returns the path of all objects.
func (r watchedResource) collection() string { return r.root + "/" + r.plural() }

// objects returns the path of the objects that the bench makes.
func (r watchedResource) objects() string {
	if r.global {
		return r.collection()
	}
	return r.root + "/namespaces/" + namespace + "/" + r.plural()
}

// watchedResources returns the resources that agents in a cluster watch: meshes, monitoring, policy
// engines, network controllers.
func watchedResources() []watchedResource {
	core := func(name, kind string, content map[string]any) watchedResource {
		return watchedResource{name: name, root: "/api/v1", kind: kind, apiVersion: "v1", content: content}
	}
	apps := func(name, kind string, content map[string]any) watchedResource {
		return watchedResource{name: name + ".apps", root: "/apis/apps/v1", kind: kind, apiVersion: "apps/v1", content: content}
	}
	global := func(r watchedResource) watchedResource { r.global = true; return r }
	labels := map[string]any{"app": "bench"}
	pod := map[string]any{"containers": []any{map[string]any{
		"name": "main", "image": "registry.example.com/bench:1", "ports": []any{map[string]any{"containerPort": 8080}},
	}}}
	selector := map[string]any{"matchLabels": labels}
	template := map[string]any{"metadata": map[string]any{"labels": labels}, "spec": pod}
	spec := func(fields map[string]any) map[string]any { return map[string]any{"spec": fields} }
	return []watchedResource{
		core("pods", "Pod", spec(pod)),
		global(core("nodes", "Node", nil)),
		global(core("namespaces", "Namespace", nil)),
		core("services", "Service", spec(map[string]any{"selector": labels, "ports": []any{map[string]any{"port": 80}}})),
		{name: "endpointslices.discovery.k8s.io", root: "/apis/discovery.k8s.io/v1", kind: "EndpointSlice", apiVersion: "discovery.k8s.io/v1",
			content: map[string]any{"addressType": "IPv4", "endpoints": []any{map[string]any{"addresses": []any{"10.0.0.1"}}}}},
		core("configmaps", "ConfigMap", map[string]any{"data": map[string]any{"mode": "bench"}}),
		core("secrets", "Secret", map[string]any{"stringData": map[string]any{"token": "bench"}}),
		apps("deployments", "Deployment", spec(map[string]any{"replicas": 3, "selector": selector, "template": template})),
		apps("replicasets", "ReplicaSet", spec(map[string]any{"replicas": 3, "selector": selector, "template": template})),
		apps("daemonsets", "DaemonSet", spec(map[string]any{"selector": selector, "template": template})),
	}
}

// followedResources returns the value of --follow for watchedResources.
func followedResources() string {
	var names []string
	for _, r := range watchedResources() {
		names = append(names, r.name)
	}
	return strings.Join(names, ",")
}

// objectName returns the name of object i of each resource.
func objectName(i int) string { return fmt.Sprintf("bench-replica-%05d", i) }

// creation returns the creation of object i of a resource, with the stamp of at.
func (r watchedResource) creation(i int, at time.Time) testbed.Change {
	var text strings.Builder
	for line := 0; text.Len() < textBytes; line++ {
		fmt.Fprintf(&text, "setting.%d.%d=%d\n", i, line, i*line)
	}
	object := map[string]any{
		"apiVersion": r.apiVersion, "kind": r.kind,
		"metadata": map[string]any{
			"name":        objectName(i),
			"labels":      map[string]string{benchLabel: "true", "app": "bench"},
			"annotations": map[string]string{testbed.StampKey: testbed.FormatStamp(at), benchLabel: text.String()},
		},
	}
	for key, value := range r.content {
		object[key] = value
	}
	body, err := json.Marshal(object)
	if err != nil {
		panic(fmt.Sprintf("encode %s: %v", r.kind, err)) // it consists of strings and numbers
	}
	return testbed.Change{Method: http.MethodPost, URI: r.objects(), ContentType: testbed.AcceptJSON, Body: body}
}

// change returns a patch of object i of a resource, with the stamp of at.
func (r watchedResource) change(i int, at time.Time) testbed.Change {
	return testbed.Change{
		Method: writeVerb, URI: r.objects() + "/" + objectName(i), ContentType: "application/merge-patch+json",
		Body: fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, testbed.StampKey, testbed.FormatStamp(at)),
	}
}
