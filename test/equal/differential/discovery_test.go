package differential

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/millrace/millrace/test/support/harness"
)

// TestDiscoveryAgrees compares all discovery documents of both read paths while
// groups are added, changed and removed.
func TestDiscoveryAgrees(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two servers")
	}
	t.Parallel()
	p := startPair(t)
	f := newObjectSet(p)
	d := &documents{pair: p, client: f.client}
	replica := d.replica(t)
	d.agree(t, "at the start")
	f.file("discovery.yaml", nil)
	d.agree(t, "with definitions")
	tags := d.tags(t)

	d.patch(t, definitions, "ships.sea.example.com", `[
		{"op": "replace", "path": "/spec/versions/1/served", "value": false},
		{"op": "replace", "path": "/spec/versions/2/served", "value": true},
		{"op": "remove", "path": "/spec/versions/0/subresources/scale"},
		{"op": "replace", "path": "/spec/names/shortNames", "value": ["vessel"]}]`)
	d.patch(t, definitions, "dark.hidden.example.com", `[{"op": "replace", "path": "/spec/versions/0/served", "value": true}]`)
	d.patch(t, services, "v1.nowhere.example.com", `[{"op": "replace", "path": "/spec/groupPriorityMinimum", "value": 100}]`)
	d.agree(t, "after changes")
	t.Run("at a replica", replica.compare)
	for name, tag := range d.tags(t) {
		if tag == tags[name] {
			t.Errorf("%s: the ETag is still %s", name, tag)
		}
	}

	d.stick(t)
	d.delete(t, definitions, "boats.lake.example.com")
	d.delete(t, definitions, "extras.storage.k8s.io")
	d.agree(t, "with a definition that is going away")
	d.patch(t, boats.GroupVersion().WithResource("canoes"), "stuck", `[{"op": "remove", "path": "/metadata/finalizers"}]`)
	d.delete(t, services, "v1.nowhere.example.com")
	d.delete(t, definitions, "ships.sea.example.com")
	d.agree(t, "after deletions")
}

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	services    = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	boats       = schema.GroupVersionResource{Group: "lake.example.com", Version: "v1", Resource: "boats"}
)

// documents compares discovery documents and changes the groups that they
// describe.
type documents struct {
	pair   *pair
	client dynamic.Interface
	// paths are all paths that have ever existed. Those of known were there at the first
	// comparison, and nothing changes their groups.
	paths []string
	known map[string]bool
}

// replica starts a replica in front of the stock server, whose documents are compared with
// the replica's.
func (d *documents) replica(t *testing.T) *documents {
	p := d.pair
	ours := newSide(t, harness.StartReplica(t, p.theirs.Server, p.ours.EtcdServers(), featureGates))
	return &documents{client: d.client, pair: &pair{tb: t, ours: ours, theirs: p.theirs, etcd: p.etcd, oursPassesOn: true}}
}

const asDiscovery = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

var (
	plainDiscovery = []string{
		"", "application/json", protobuf, "application/yaml", "application/json;pretty=1", "*/*", "application/*", "text/html", "text/html,*/*",
		protobuf + ",application/json", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/cbor", "application/cbor,application/json", "junk",
	}
	aggregatedDiscovery = []string{
		"application/json" + asDiscovery, protobuf + asDiscovery, "application/yaml" + asDiscovery, "application/json" + asDiscovery + ";pretty=1",
		"application/json" + asDiscovery + ";profile=nopeer", "*/*" + asDiscovery, "application/cbor" + asDiscovery,
		"application/json" + asDiscovery + ",application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
		"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
		"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
		protobuf + asDiscovery + ",application/json" + asDiscovery,
		"application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList,application/json",
	}
)

// usualForms is how many forms of plainDiscovery documents are compared in again that nothing
// has changed since they were compared in all.
const usualForms = 4

// agree compares all documents in all forms once there are no more writes.
func (d *documents) agree(t *testing.T, when string) {
	t.Run(when, func(t *testing.T) {
		d.pair.settle()
		d.compare(t)
	})
}

// compare compares all documents in all forms now.
func (d *documents) compare(t *testing.T) {
	d.find(t)
	requests := []request{
		{path: "/apis", method: http.MethodPost}, {path: "/apis", method: http.MethodHead}, {path: "/api", method: http.MethodHead},
		{path: "/apis/apps/v1", method: http.MethodPut}, {path: "/apis", as: anonymous}, {path: "/apis/apps/v1", as: anonymous},
		{path: "/apis//v1"}, {path: "/apis/apps//"}, {path: "/apiss"}, {path: "/api/v2"}, {path: "/apis/absent.example.com"},
		{path: "/apis/absent.example.com/v1"}, {path: "/apis/apps/v9"}, {path: "/apis/apps/v1", query: "timeout=25s&pretty=true&x=%zz"},
	}
	for _, path := range d.paths {
		accepts := plainDiscovery
		if strings.Count(path, "/") < 3 {
			accepts = slices.Concat(plainDiscovery, aggregatedDiscovery)
		}
		isKnown := d.known[path] && os.Getenv(requestsVariable) == ""
		if isKnown {
			accepts = plainDiscovery[:usualForms]
		}
		for _, accept := range accepts {
			requests = append(requests, request{path: path, accept: accept})
		}
		if isKnown {
			continue
		}
		requests = append(requests, request{path: path, encoding: "gzip"}, request{path: path, agent: "curl/8.0"},
			request{path: path, query: "pretty=true"}, request{path: path, as: http1}, request{path: path, header: http.Header{"If-None-Match": {`"x"`}}})
	}
	for _, path := range []string{"/api", "/apis"} {
		for _, accept := range aggregatedDiscovery {
			a, err := d.pair.theirs.do(request{path: path, accept: accept})
			if err != nil {
				t.Fatal(err)
			}
			if path == "/api" && a.status == http.StatusOK && a.header.Get("ETag") == "" {
				continue
			}
			for _, header := range []http.Header{{}, {"If-None-Match": {a.header.Get("ETag")}}, {"If-None-Match": {"W/" + a.header.Get("ETag")}}} {
				for _, r := range []request{{}, {encoding: "gzip, deflate"}, {agent: "Mozilla/5.0"}, {as: http1}} {
					r.path, r.accept, r.header = path, accept, header
					requests = append(requests, r)
				}
			}
		}
	}
	d.pair.agree(t, requests)
	d.unordered(t)
	if d.known == nil {
		d.known = map[string]bool{}
		for _, path := range d.paths {
			d.known[path] = strings.Count(path, "/") > 1
		}
	}
}

// find adds the paths of the current groups. Earlier paths remain. It leaves
// out the version with several definitions, which unordered compares.
func (d *documents) find(t *testing.T) {
	a, err := d.pair.theirs.do(request{path: "/apis", accept: "application/json"})
	if err != nil {
		t.Fatal(err)
	}
	var list metav1.APIGroupList
	if err := json.Unmarshal(a.body, &list); err != nil {
		t.Fatal(err)
	}
	// The plain document of the core group is left out: it contains the
	// server's address.
	found := []string{"/api/v1", "/api/v1/", "/apis", "/apis/"}
	for _, g := range list.Groups {
		found = append(found, "/apis/"+g.Name, "/apis/"+g.Name+"/")
		for _, v := range g.Versions {
			if path := "/apis/" + v.GroupVersion; path != unorderedPath {
				found = append(found, path, path+"/")
			}
		}
	}
	d.paths = append(d.paths, found...)
	slices.Sort(d.paths)
	d.paths = slices.Compact(d.paths)
}

// unorderedPath lists several definitions. Their order changes from request to
// request.
const unorderedPath = "/apis/lake.example.com/v1"

func (d *documents) unordered(t *testing.T) {
	ours, theirs, err := d.pair.both(request{path: unorderedPath, accept: "application/json"})
	if err != nil {
		t.Fatal(err)
	}
	sortResources(ours)
	sortResources(theirs)
	if mismatch := d.pair.difference(ours, theirs); mismatch != "" {
		t.Errorf("%s\n%s", unorderedPath, mismatch)
	}
}

func sortResources(a *answer) {
	var list metav1.APIResourceList
	if a.status != http.StatusOK || json.Unmarshal(a.body, &list) != nil {
		return
	}
	slices.SortFunc(list.APIResources, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
	if sorted, err := json.Marshal(list); err == nil {
		a.body = sorted
	}
}

// tags returns the ETags of the aggregated document. Both servers must send the
// same.
func (d *documents) tags(t *testing.T) map[string]string {
	ours, theirs, err := d.pair.both(request{path: "/apis", accept: aggregatedDiscovery[0]})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(ours.body, []byte(`"freshness":"Stale"`)) {
		t.Error("the server that is not there has no stale version")
	}
	return map[string]string{"ours": ours.header.Get("ETag"), "theirs": theirs.header.Get("ETag")}
}

func (d *documents) patch(t *testing.T, gvr schema.GroupVersionResource, name, patch string) {
	t.Helper()
	var resource dynamic.ResourceInterface = d.client.Resource(gvr)
	if gvr.Resource == "canoes" {
		resource = d.client.Resource(gvr).Namespace("default")
	}
	ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
	defer cancel()
	if _, err := resource.Patch(ctx, name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatalf("patch %s: %v", name, err)
	}
}

func (d *documents) delete(t *testing.T, gvr schema.GroupVersionResource, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
	defer cancel()
	if err := d.client.Resource(gvr).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete %s: %v", name, err)
	}
}

// stick deletes a definition whose only object cannot be deleted, because of a
// finalizer.
func (d *documents) stick(t *testing.T) {
	t.Helper()
	stuck := &unstructured.Unstructured{Object: object("lake.example.com/v1", "Canoe", "default", "stuck")}
	stuck.SetFinalizers([]string{"example.com/stuck"})
	ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
	defer cancel()
	if _, err := d.client.Resource(boats.GroupVersion().WithResource("canoes")).Namespace("default").Create(ctx, stuck, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create %s: %v", stuck.GetName(), err)
	}
	d.delete(t, definitions, "canoes.lake.example.com")
}
