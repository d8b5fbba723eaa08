package kube

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/spf13/pflag"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	listers "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	openapicontroller "k8s.io/apiextensions-apiserver/pkg/controller/openapi"
	openapiv3controller "k8s.io/apiextensions-apiserver/pkg/controller/openapiv3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"

	"github.com/millrace/millrace/internal/apiserver/crd"
	"github.com/millrace/millrace/internal/apiserver/openapi"
	"github.com/millrace/millrace/internal/feed/etcdserver"
	"github.com/millrace/millrace/internal/feed/etcdserver/etcdtest"
)

// newEtcd starts an empty etcd.
func newEtcd(t *testing.T) *etcdserver.Etcd {
	t.Helper()
	etcd := etcdtest.Open(t, etcdtest.Config(t))
	t.Cleanup(etcd.Close)
	return etcd
}

// idleConfig is a configuration of servers that are never run.
func idleConfig(t *testing.T, etcd *etcdserver.Etcd) *app.Config {
	t.Helper()
	dir := t.TempDir()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "key")
	encoded := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(file, encoded, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	o := NewOptions()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddTo(flags)
	if err := flags.Parse([]string{
		"--etcd-servers=" + etcd.Endpoint(), "--cert-dir=" + dir, "--service-account-issuer=https://test",
		"--service-account-key-file=" + file, "--service-account-signing-key-file=" + file, "--authorization-mode=AlwaysAllow",
	}); err != nil {
		t.Fatal(err)
	}
	o.run.SecureServing.Listener = listener
	o.run.SecureServing.BindPort = listener.Addr().(*net.TCPAddr).Port
	config, err := o.newConfig(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// newIdleChain makes a chain that answers requests but runs no hooks.
func newIdleChain(t *testing.T, config *app.Config) *Server {
	t.Helper()
	completed, err := config.Complete()
	if err != nil {
		t.Fatal(err)
	}
	aggregator, err := app.CreateServerChain(completed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(aggregator.GenericAPIServer.Destroy)
	return &Server{aggregator: aggregator}
}

type definitionInformer struct{ cache.SharedIndexInformer }

func (i definitionInformer) Informer() cache.SharedIndexInformer { return i.SharedIndexInformer }

func (i definitionInformer) Lister() listers.CustomResourceDefinitionLister {
	return listers.NewCustomResourceDefinitionLister(i.GetIndexer())
}

// publish runs the stock controllers that add custom resources to a server's documents.
func publish(t *testing.T, server *genericapiserver.GenericAPIServer, definitions ...*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	source := cachetesting.NewFakeControllerSource()
	for _, d := range definitions {
		source.Add(d.DeepCopy())
	}
	informer := definitionInformer{cache.NewSharedIndexInformer(source, &apiextensionsv1.CustomResourceDefinition{}, 0, cache.Indexers{})}
	v2, v3 := openapicontroller.NewController(informer), openapiv3controller.NewController(informer)
	go informer.Run(t.Context().Done())
	go v2.Run(server.StaticOpenAPISpec, server.OpenAPIVersionedService, t.Context().Done())
	go v3.Run(server.OpenAPIV3VersionedService, t.Context().Done())
}

// fixedCatalog is a catalog of definitions that do not change.
type fixedCatalog []*apiextensionsv1.CustomResourceDefinition

func (f fixedCatalog) All() []*crd.Definition {
	var all []*crd.Definition
	for _, d := range f {
		v := d.Spec.Versions[0]
		version := crd.Version{Name: v.Name, Served: true, Storage: true}
		if v.Subresources != nil {
			version.Status, version.Scale = v.Subresources.Status != nil, v.Subresources.Scale != nil
		}
		all = append(all, &crd.Definition{
			Name: d.Name, Group: d.Spec.Group, Scope: d.Spec.Scope, Wanted: d.Spec.Names, Established: true,
			Versions: []crd.Version{version},
		})
	}
	return all
}

func (f fixedCatalog) FullOf(row *crd.Definition) (*apiextensionsv1.CustomResourceDefinition, error) {
	for _, d := range f {
		if d.Name == row.Name {
			return d, nil
		}
	}
	return nil, os.ErrNotExist
}

func (f fixedCatalog) StoredOf(row *crd.Definition, use func(stored []byte) error) error {
	full, err := f.FullOf(row)
	if err != nil {
		return err
	}
	stored := *full
	stored.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	encoded, err := json.Marshal(&stored)
	if err != nil {
		return err
	}
	return use(encoded)
}

func (f fixedCatalog) AddHandler(func(before, after *crd.Definition)) {}

func widget(group, kind string, scope apiextensionsv1.ResourceScope, subresources *apiextensionsv1.CustomResourceSubresources) *apiextensionsv1.CustomResourceDefinition {
	object := apiextensionsv1.JSONSchemaProps{Type: "object"}
	root := object
	root.Properties = map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"size": {Type: "integer"}}}}
	names := apiextensionsv1.CustomResourceDefinitionNames{Plural: "all" + kind, Kind: kind, ListKind: kind + "List"}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: names.Plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: group, Scope: scope, Names: names, Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true, Subresources: subresources,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root},
		}}},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{
			Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}},
		},
	}
}

// TestOpenAPIEqualsStock compares all documents of our chain and the stock one.
func TestOpenAPIEqualsStock(t *testing.T) {
	definitions := fixedCatalog{
		widget("example.com", "Widget", apiextensionsv1.NamespaceScoped, &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}),
		widget("example.com", "Gear", apiextensionsv1.ClusterScoped, &apiextensionsv1.CustomResourceSubresources{Scale: &apiextensionsv1.CustomResourceSubresourceScale{}}),
		widget("apps", "Odd", apiextensionsv1.NamespaceScoped, nil),
	}
	etcd := newEtcd(t)
	stock := newIdleChain(t, idleConfig(t, etcd))
	if _, err := stock.aggregator.PrepareRun(); err != nil {
		t.Fatal(err)
	}
	publish(t, stock.chain()[2], definitions...)

	config := idleConfig(t, etcd)
	skipOpenAPI(config)
	ours := newIdleChain(t, config)
	for _, server := range ours.chain()[1:] {
		emptyOpenAPI(server)
	}
	if _, err := ours.aggregator.PrepareRun(); err != nil {
		t.Fatal(err)
	}
	generic := config.Aggregator.GenericConfig
	api, err := openapi.New(openapi.Config{Catalog: definitions, Version: "test", Locals: func() []openapi.Local {
		return openAPILocals(ours.chain()[:3], generic.OpenAPIConfig, generic.OpenAPIV3Config)
	}})
	if err != nil {
		t.Fatal(err)
	}
	want, got := stock.aggregator.GenericAPIServer.UnprotectedHandler(), api.Wrap(ours.aggregator.GenericAPIServer.UnprotectedHandler())

	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(20 * time.Second); !bytes.Contains(ask(t, want, "/openapi/v2"), []byte("com.example.v1.Gear")); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatal("the stock server has no custom resources")
		}
	}
	compareJSON(t, "/openapi/v2", ask(t, want, "/openapi/v2"), ask(t, got, "/openapi/v2"))
	for path := range v3Paths(t, ask(t, got, "/openapi/v3")) {
		compareJSON(t, path, askStock(t, stock, path), ask(t, got, "/openapi/v3/"+path))
	}
}

// askStock requests a document from the server that has it. The aggregator itself only
// collects documents when its controller runs.
func askStock(t *testing.T, stock *Server, path string) []byte {
	t.Helper()
	for _, server := range stock.chain()[1:3] {
		if v3Paths(t, ask(t, server.UnprotectedHandler(), "/openapi/v3"))[path] != nil {
			return ask(t, server.UnprotectedHandler(), "/openapi/v3/"+path)
		}
	}
	return ask(t, stock.aggregator.GenericAPIServer.UnprotectedHandler(), "/openapi/v3/"+path)
}

func v3Paths(t *testing.T, root []byte) map[string]any {
	t.Helper()
	var discovery handler3.OpenAPIV3Discovery
	if err := json.Unmarshal(root, &discovery); err != nil {
		t.Fatal(err)
	}
	paths := map[string]any{}
	for path := range discovery.Paths {
		paths[path] = true
	}
	return paths
}

func ask(t *testing.T, h http.Handler, path string) []byte {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%s: status %d", path, w.Code)
	}
	return w.Body.Bytes()
}

func compareJSON(t *testing.T, name string, want, got []byte) {
	t.Helper()
	var w, g map[string]any
	if err := json.Unmarshal(want, &w); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatal(err)
	}
	for _, section := range []string{"paths", "definitions", "parameters"} {
		a, _ := w[section].(map[string]any)
		b, _ := g[section].(map[string]any)
		for key := range a {
			if !reflect.DeepEqual(a[key], b[key]) {
				x, _ := json.Marshal(a[key])
				y, _ := json.Marshal(b[key])
				t.Errorf("%s: %s %s: want %.300s\ngot %.300s", name, section, key, x, y)
			}
		}
	}
	if !reflect.DeepEqual(w, g) {
		t.Errorf("%s differs: %d and %d bytes", name, len(want), len(got))
	}
}
