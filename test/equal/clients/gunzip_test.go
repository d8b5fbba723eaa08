package clients

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/test/support/harness"
)

const (
	gunzipNamespace = "gunzip"
	gunzipGroup     = "gunzip.example.com"

	fromVersion = "&timeoutSeconds=300&resourceVersion="
	initialList = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	watchList   = "&timeoutSeconds=300" + initialList
)

// gunzipTest is a server with the clients that follow its watches.
type gunzipTest struct {
	server  *side
	api     kubernetes.Interface
	custom  dynamic.Interface
	defined apiextensions.Interface
	clients []*followingClient
	scripts map[string]*followScript
	// versions are the resource versions of the config map's states.
	versions []string
	// expected are the frames of watches whose clients buffer. They are read at the
	// end.
	expected map[*clientWatch][]string
}

// TestGunzip follows compressed watches, plain ones and watch-lists, with the decoders
// of many clients. An event is written only when every client has decoded the one
// before. Clients that are known to buffer must decode all events in the end.
func TestGunzip(t *testing.T) {
	t.Parallel()
	g := newGunzipTest(t)
	for _, c := range gunzipClients() {
		// A client outlives this subtest, because the shutdown ends its watches.
		t.Run(c.name, func(sub *testing.T) {
			c.need(sub)
			g.start(t, c)
		})
	}
	watches := g.follow(t, false, g.configMap(fromVersion+g.versions[0]))
	lists := g.follow(t, true, g.configMap(watchList))
	changed := append(g.follow(t, true, g.customPath("changed", fromVersion+g.versions[0])), g.follow(t, true, g.customPath("changed", watchList))...)
	deleted := append(g.follow(t, true, g.customPath("deleted", fromVersion+g.versions[0])), g.follow(t, true, g.customPath("deleted", watchList))...)
	g.want(t, lists, "ADDED first", "BOOKMARK")
	g.want(t, changed, "ADDED first")
	g.want(t, deleted, "ADDED first")

	running := append(watches, lists...)
	for n := range 5 {
		g.patch(t, fmt.Sprint("event ", n))
		g.want(t, running, fmt.Sprint("MODIFIED event ", n))
	}
	late := g.follow(t, false, g.configMap(fromVersion+g.versions[3]))
	g.want(t, late, "MODIFIED event 3", "MODIFIED event 4")
	lateLists := g.follow(t, true, g.configMap(watchList))
	g.want(t, lateLists, "ADDED event 4", "BOOKMARK")
	running = append(append(running, late...), lateLists...)
	for n := range 3 {
		g.patch(t, fmt.Sprint("shared ", n))
		g.want(t, running, fmt.Sprint("MODIFIED shared ", n))
	}
	var burst []string
	for n := range 50 {
		g.patch(t, fmt.Sprint("burst ", n))
		burst = append(burst, fmt.Sprint("MODIFIED burst ", n))
	}
	g.want(t, running, burst...)
	g.ends(t, changed, deleted, running)
	for w, frames := range g.expected {
		if strings.Contains(w.name, "sendInitialEvents") {
			w.wantEnd(t) // nothing tells with which state the client has begun
			continue
		}
		w.want(t, frames...)
	}
}

// ends ends watches in each way.
func (g *gunzipTest) ends(t *testing.T, changed, deleted, running []*clientWatch) {
	g.want(t, g.follow(t, true, g.configMap("&timeoutSeconds=1&resourceVersion=0")), "ADDED burst 49", "end")
	g.want(t, g.follow(t, true, g.configMap("&timeoutSeconds=1"+initialList)), "ADDED burst 49", "BOOKMARK", "end")
	g.want(t, g.follow(t, true, g.configMap("&timeoutSeconds=30&resourceVersion=5")), "ERROR 410", "end")

	definitions := g.defined.ApiextensionsV1().CustomResourceDefinitions()
	shortName := []byte(`{"spec":{"names":{"shortNames":["chg"]}}}`)
	_, err := definitions.Patch(t.Context(), "changed."+gunzipGroup, types.MergePatchType, shortName, metav1.PatchOptions{})
	must(t, err)
	g.want(t, changed, "end")
	must(t, definitions.Delete(t.Context(), "deleted."+gunzipGroup, metav1.DeleteOptions{}))
	g.want(t, deleted, "DELETED first", "end")
	must(t, g.server.Terminate())
	running = slices.DeleteFunc(running, func(w *clientWatch) bool { return w.client.givesUp })
	g.want(t, running, "end")
}

func newGunzipTest(t *testing.T) *gunzipTest {
	etcd := harness.StartEtcd(t)
	compact(t, etcd)
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	must(t, os.WriteFile(tokens, []byte(token+",administrator,administrator,\"system:masters\"\n"), 0o600))
	s := &side{path: "millrace", Server: harness.Start(t, filepath.Join(harness.ShortTempDir(t), "d"),
		"--etcd-servers="+etcd.Endpoint, "--token-auth-file="+tokens)}
	g := &gunzipTest{server: s, expected: map[*clientWatch][]string{}, scripts: map[string]*followScript{}}
	var err error
	g.api, err = kubernetes.NewForConfig(s.Config())
	must(t, err)
	g.custom, err = dynamic.NewForConfig(s.Config())
	must(t, err)
	g.defined, err = apiextensions.NewForConfig(s.Config())
	must(t, err)
	_, err = g.api.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gunzipNamespace}}, metav1.CreateOptions{})
	must(t, err)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "slow"}, Data: map[string]string{"text": "first"}}
	made, err := g.api.CoreV1().ConfigMaps(gunzipNamespace).Create(t.Context(), object, metav1.CreateOptions{})
	must(t, err)
	g.versions = []string{made.ResourceVersion}
	g.define(t, "Changed", "changed")
	g.define(t, "Deleted", "deleted")
	return g
}

// start starts a client.
func (g *gunzipTest) start(t *testing.T, c gunzipClient) {
	t.Helper()
	f := &followingClient{gunzipClient: c, url: g.server.URL}
	g.clients = append(g.clients, f)
	if c.command == nil {
		var err error
		f.transport, err = c.roundTripper(rest.CopyConfig(g.server.Config()))
		must(t, err)
		return
	}
	command := strings.Join(c.command, " ")
	if g.scripts[command] == nil {
		g.scripts[command] = g.server.startFollowing(t, c.command)
	}
	f.script = g.scripts[command]
}

// define creates a definition and an object.
func (g *gunzipTest) define(t *testing.T, kind, plural string) {
	t.Helper()
	keep := true
	_, err := g.defined.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + gunzipGroup},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: gunzipGroup, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}},
			}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	objects := g.custom.Resource(schema.GroupVersionResource{Group: gunzipGroup, Version: "v1", Resource: plural}).Namespace(gunzipNamespace)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gunzipGroup + "/v1", "kind": kind, "metadata": map[string]any{"name": "one"}, "data": map[string]any{"text": "first"},
	}}
	must(t, harness.Until(time.Minute, func() error {
		if _, err := objects.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("%w: %w", harness.ErrNotYet, err)
		}
		return nil
	}))
}

func (g *gunzipTest) configMap(query string) string {
	return "/api/v1/namespaces/" + gunzipNamespace + "/configmaps?watch=1&fieldSelector=metadata.name%3Dslow" + query
}

func (g *gunzipTest) customPath(plural, query string) string {
	return "/apis/" + gunzipGroup + "/v1/namespaces/" + gunzipNamespace + "/" + plural + "?watch=1" + query
}

// patch writes the config map's next state.
func (g *gunzipTest) patch(t *testing.T, text string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"data": map[string]string{"text": text}})
	must(t, err)
	state, err := g.api.CoreV1().ConfigMaps(gunzipNamespace).Patch(t.Context(), "slow", types.MergePatchType, body, metav1.PatchOptions{})
	must(t, err)
	g.versions = append(g.versions, state.ResourceVersion)
}

// follow lets all clients open a watch. Those that follow only plain watches are left
// out if compressed is set.
func (g *gunzipTest) follow(t *testing.T, compressed bool, path string) (watches []*clientWatch) {
	t.Helper()
	for _, c := range g.clients {
		if !compressed || !c.plainOnly {
			watches = append(watches, c.follow(t, path))
		}
	}
	return watches
}

// want waits until the clients have decoded some frames. It does not wait for clients
// that buffer.
func (g *gunzipTest) want(t *testing.T, watches []*clientWatch, frames ...string) {
	t.Helper()
	for _, w := range watches {
		if w.client.buffers != "" {
			g.expected[w] = append(g.expected[w], frames...)
			continue
		}
		w.want(t, frames...)
	}
}
