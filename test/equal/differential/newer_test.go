package differential

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/dynamic"
	baseversion "k8s.io/component-base/version"

	"github.com/millrace/millrace/test/support/harness"
)

const (
	newerScripts   = 5
	newerHandOvers = 24
)

// newer compares replicas with an upstream that has more than this program knows: another
// minor version with a field that no type here has, and kinds that neither a type nor a
// definition describes. All of that must be equal or passed on.
func (f *fixture) newer(t *testing.T, beyond *harness.Server, gates string, requests int, counted *tally) {
	t.Run("fields", func(t *testing.T) {
		front := *f
		seen := newSide(t, harness.StartVersionProxy(t, f.theirs.Server, f.minorsUntilNewer(t), renew))
		front.pair = &pair{tb: t, ours: seen, theirs: seen, etcd: f.etcd, namespaced: f.namespaced, ignoresShards: f.ignoresShards}
		if a, err := seen.do(request{path: "/api/v1/configmaps", query: "limit=1"}); err != nil || !bytes.Contains(a.body, []byte(novelty)) {
			t.Fatalf("config maps have no new field: %v, %.300s", err, a.body)
		}
		both := front.behind(t, front.theirs, "--follow=secrets", gates)
		both.replicaAgrees(t, front.generator(t), replicaLoad{
			requests: requests, scripts: newerScripts, handOvers: newerHandOvers, tally: counted, feed: "newer",
		})
	})
	t.Run("kinds", func(t *testing.T) {
		addKinds(t, beyond, f.theirs)
		compare := func(feed string, flags ...string) {
			both := f.behind(t, f.theirs, flags...)
			counted.part(t, both, feed+", newer kinds", func(t *testing.T) { both.agree(t, newKinds()) })
		}
		compare("etcd", gates, "--etcd-servers="+f.etcd.Endpoints()[0])
		compare("api", gates)
	})
}

// minorsUntilNewer is how many minor versions the upstream is behind the next one of this
// program.
func (f *fixture) minorsUntilNewer(t *testing.T) int {
	t.Helper()
	a, err := f.theirs.do(request{path: "/version"})
	if err != nil {
		t.Fatal(err)
	}
	var theirs apiversion.Info
	if err := json.Unmarshal(a.body, &theirs); err != nil {
		t.Fatalf("read %s: %v", a.body, err)
	}
	minor, err := strconv.Atoi(theirs.Minor)
	if err != nil {
		t.Fatalf("the upstream has the minor version %q", theirs.Minor)
	}
	own := version.MustParse(baseversion.DefaultKubeBinaryVersion)
	return int(own.Minor()) + 1 - minor
}

// novelty is the field of config maps that no type here has.
const novelty = `"novelty":{"of":["a later","version"]},`

// renew adds the field to what a server sends of config maps.
func renew(path string, line []byte) []byte {
	if !strings.Contains(path, "/configmaps") {
		return line
	}
	return bytes.ReplaceAll(line, []byte(`"data":{`), []byte(novelty+`"data":{`))
}

// gizmos are objects whose kind only another server knows.
var gizmos = schema.GroupVersionResource{Group: "newer.example.com", Version: "v1", Resource: "gizmos"}

// addKinds has one server serve gizmos, and another one hand them out as its own.
func addKinds(t *testing.T, knows *harness.Server, serves *side) {
	t.Helper()
	ctx := t.Context()
	behind, err := dynamic.NewForConfig(knows.Config())
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(serves.quiet())
	if err != nil {
		t.Fatal(err)
	}
	create := func(client dynamic.Interface, gvr schema.GroupVersionResource, content map[string]any) error {
		u := &unstructured.Unstructured{Object: content}
		_, err := client.Resource(gvr).Namespace(u.GetNamespace()).Create(ctx, u, metav1.CreateOptions{})
		return err
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	definition := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", gizmos.GroupResource().String())
	definition["spec"] = map[string]any{
		"group": gizmos.Group, "scope": "Namespaced", "names": map[string]any{"plural": gizmos.Resource, "kind": "Gizmo"},
		"versions": []any{map[string]any{"name": gizmos.Version, "served": true, "storage": true, "schema": map[string]any{
			"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
		}}},
	}
	must(create(behind, schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, definition))
	for i := range copies {
		made := object(gizmos.GroupVersion().String(), "Gizmo", "default", fmt.Sprint("gizmo-", i+1))
		made["spec"] = map[string]any{"size": int64(i)}
		must(harness.Until(quietTimeout, func() error { return create(behind, gizmos, made) }))
	}
	address, err := url.Parse(knows.URL)
	must(err)
	port, err := strconv.ParseInt(address.Port(), 10, 64)
	must(err)
	service := object("v1", "Service", "default", "newer")
	service["spec"] = map[string]any{"type": "ExternalName", "externalName": "localhost"}
	must(create(client, schema.GroupVersionResource{Version: "v1", Resource: "services"}, service))
	apiService := object("apiregistration.k8s.io/v1", "APIService", "", gizmos.Version+"."+gizmos.Group)
	apiService["spec"] = map[string]any{
		"group": gizmos.Group, "version": gizmos.Version, "insecureSkipTLSVerify": true, "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
		"service": map[string]any{"namespace": "default", "name": "newer", "port": port},
	}
	must(create(client, schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}, apiService))
	must(harness.Until(quietTimeout, func() error {
		a, err := serves.do(request{path: gizmosRoot + "/gizmos"})
		if err == nil && a.status != 200 {
			err = fmt.Errorf("%w: status %d: %.200s", harness.ErrNotYet, a.status, a.body)
		}
		return err
	}))
}

// gizmosRoot is the path of their group version.
var gizmosRoot = "/apis/" + gizmos.Group + "/" + gizmos.Version

// newKinds returns requests for gizmos.
func newKinds() []request {
	inDefault := gizmosRoot + "/namespaces/default/gizmos"
	var all []request
	for _, path := range []string{
		gizmosRoot + "/gizmos", inDefault, inDefault + "/gizmo-1", inDefault + "/absent", gizmosRoot + "/namespaces/absent/gizmos",
		gizmosRoot, "/apis/" + gizmos.Group, "/apis",
	} {
		for _, query := range []string{
			"", "resourceVersion=0", "limit=2", "labelSelector=a%3Db", "fieldSelector=metadata.name%3Dgizmo-1",
			"watch=1&timeoutSeconds=1&resourceVersion=0", "watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
		} {
			for _, accept := range []string{"", "application/json", kubectlGet, metadataClient, "application/yaml"} {
				all = append(all, request{path: path, query: query, accept: accept})
			}
		}
	}
	return all
}
