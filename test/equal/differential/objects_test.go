package differential

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"embed"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

//go:embed testdata/*.yaml
var testdata embed.FS

// namespaces hold the fixtures. The first also holds most of the bulk objects.
var namespaces = []string{"team-a", "team-b", "team-c"}

const copies = 3

// objectSet creates objects through one server.
type objectSet struct {
	tb     testing.TB
	pair   *pair
	client dynamic.Interface
	kinds  map[schema.GroupVersionKind]*kind
	// words maps placeholders in manifests to their replacements.
	words map[string]string
	// skipsUnserved leaves out objects of kinds that the server does not serve, and
	// skipsInvalid those that it refuses. Else they are errors.
	skipsUnserved, skipsInvalid bool
}

func newObjectSet(p *pair) *objectSet {
	client, err := dynamic.NewForConfig(p.ours.quiet())
	if err != nil {
		p.tb.Fatalf("make dynamic client: %v", err)
	}
	csr, ca := certificates(p.tb)
	return &objectSet{tb: p.tb, pair: p, client: client, words: map[string]string{"$CSR": csr, "$CA": ca}}
}

// create creates the objects of the manifests and the bulk objects.
func (f *objectSet) create() {
	f.tb.Helper()
	f.manifests()
	f.bulk()
	f.delete()
}

// createKnown creates those objects that a server of another version knows.
func (f *objectSet) createKnown() {
	f.tb.Helper()
	f.skipsUnserved, f.skipsInvalid = true, true
	f.create()
}

// manifests creates a few objects of each kind.
func (f *objectSet) manifests() {
	f.tb.Helper()
	for _, ns := range append([]string{"default"}, namespaces...) {
		if ns != "default" {
			f.make(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": ns, "labels": map[string]any{"team": ns}}})
		}
		f.make(object("v1", "ServiceAccount", ns, "default"))
	}
	f.file("cluster.yaml", []string{""})
	f.file("custom.yaml", nil)
	f.file("namespaced.yaml", namespaces)
	f.file("unusual-values.yaml", nil)
	p := f.pair
	p.until("custom resources", func() error {
		for _, s := range []*side{p.ours, p.theirs} {
			for _, path := range []string{"/apis/example.com/v1/widgets", "/apis/example.com/v1beta1/widgets", "/apis/example.com/v1/gadgets"} {
				if a, err := s.do(request{path: path}); err != nil || a.status != 200 {
					return fmt.Errorf("%s at %s: %v %v", path, s.URL, a, err)
				}
			}
		}
		return nil
	})
	f.kinds = nil
	f.file("custom-objects.yaml", namespaces)
}

// file creates the objects of a manifest: unchanged if there are no namespaces,
// otherwise for each namespace and number.
func (f *objectSet) file(name string, namespaces []string) {
	f.tb.Helper()
	content, err := testdata.ReadFile("testdata/" + name)
	if err != nil {
		f.tb.Fatalf("read manifest: %v", err)
	}
	var objects []map[string]any
	add := func(words ...string) {
		for _, document := range bytes.Split([]byte(f.fill(string(content), words...)), []byte("\n---\n")) {
			raw, err := yaml.YAMLToJSON(document)
			if err != nil {
				f.tb.Fatalf("read manifest %s: %v", name, err)
			}
			u := &unstructured.Unstructured{}
			if err := u.UnmarshalJSON(raw); err != nil {
				f.tb.Fatalf("read manifest %s: %v\n%s", name, err, raw)
			}
			objects = append(objects, u.Object)
		}
	}
	if namespaces == nil {
		add()
	}
	for _, ns := range namespaces {
		for n := range copies {
			add("$NS", ns, "$N", fmt.Sprint(n+1))
		}
	}
	f.parallel(objects)
}

func (f *objectSet) fill(content string, words ...string) string {
	for word, value := range f.words {
		words = append(words, word, value)
	}
	return strings.NewReplacer(words...).Replace(content)
}

const makers = 8

func (f *objectSet) parallel(objects []map[string]any) {
	f.tb.Helper()
	work := make(chan map[string]any)
	var running sync.WaitGroup
	for range makers {
		running.Go(func() {
			for object := range work {
				f.make(object)
			}
		})
	}
	f.discover()
	for _, object := range objects {
		work <- object
	}
	close(work)
	running.Wait()
}

func (f *objectSet) discover() {
	if f.kinds != nil {
		return
	}
	f.kinds = map[schema.GroupVersionKind]*kind{}
	for _, k := range discover(f.tb, f.pair) {
		f.kinds[k.gvk] = k
	}
}

func (f *objectSet) resource(u *unstructured.Unstructured) dynamic.ResourceInterface {
	f.discover()
	k, ok := f.kinds[u.GroupVersionKind()]
	if !ok {
		if !f.skipsUnserved {
			f.tb.Errorf("kind %s is not served", u.GroupVersionKind())
		}
		return nil
	}
	if k.namespaced {
		return f.client.Resource(k.gvr).Namespace(u.GetNamespace())
	}
	return f.client.Resource(k.gvr)
}

func (f *objectSet) make(content map[string]any) {
	u := &unstructured.Unstructured{Object: content}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	resource := f.resource(u)
	if resource == nil {
		return
	}
	_, err := resource.Create(ctx, u, metav1.CreateOptions{})
	if f.skipsInvalid && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) {
		f.tb.Logf("left out %s %s/%s: %v", u.GetKind(), u.GetNamespace(), u.GetName(), err)
		return
	}
	if err != nil && !(apierrors.IsAlreadyExists(err) && u.GetName() == "default") && !clusterScopedAgain(u, err) {
		f.tb.Errorf("create %s %s/%s: %v", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
}

// clusterScopedAgain reports whether err only says that a cluster-scoped object
// exists already. A manifest that is applied to each namespace may contain such
// objects.
func clusterScopedAgain(u *unstructured.Unstructured, err error) bool {
	return u.GetNamespace() == "" && apierrors.IsAlreadyExists(err)
}

func object(apiVersion, kind, namespace, name string) map[string]any {
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name, "namespace": namespace}}
}

// bulk creates enough objects for several leaves of the cache's tree. Their
// lists lie on both sides of the size above which answers are compressed.
func (f *objectSet) bulk() {
	f.tb.Helper()
	var all []map[string]any
	for i := range 320 {
		// Half of the objects are in the first namespace, so that some leaves
		// hold two namespaces.
		ns := namespaces[max(0, i%4-1)]
		name := fmt.Sprintf("bulk-%03d", i)
		labels := map[string]any{"app": []string{"web", "db", "cache"}[i%3], "index": fmt.Sprint(i)}

		config := object("v1", "ConfigMap", ns, name)
		config["data"] = map[string]any{"key": strings.Repeat(name+" <&> ", 30)}
		secret := object("v1", "Secret", ns, name)
		secret["stringData"] = map[string]any{"token": strings.Repeat(name, 10)}
		pod := object("v1", "Pod", ns, name)
		pod["spec"] = map[string]any{"nodeName": fmt.Sprintf("node-%d", i%3+1), "containers": []any{map[string]any{
			"name": "main", "image": "registry.example.com/bulk:1",
			"env": []any{map[string]any{"name": "INDEX", "value": fmt.Sprint(i)}},
		}}}
		for _, o := range []map[string]any{config, secret, pod} {
			o["metadata"].(map[string]any)["labels"] = labels
			all = append(all, o)
		}
	}
	for name, size := range map[string]int{"large-200k": 200 << 10, "near-above": 128 << 10, "near-below": 128<<10 - 700} {
		large := object("v1", "ConfigMap", "team-b", name)
		large["data"] = map[string]any{"text": text(size)}
		all = append(all, large)
	}
	// The sizes of these objects differ by a few bytes. Some are just at the
	// threshold of compression.
	for i := range 16 {
		edge := object("v1", "ConfigMap", "edge", fmt.Sprintf("edge-%02d", i))
		edge["data"] = map[string]any{"text": text(128<<10 - 480 + 8*i)}
		all = append(all, edge)
	}
	f.make(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "edge"}})
	f.parallel(all)
}

// text returns a text of an exact size that does not compress perfectly.
func text(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "line %x %x;", i, i*i*2654435761)
	}
	return b.String()[:size]
}

// delete deletes some of the bulk objects, and an object that its finalizer
// keeps.
func (f *objectSet) delete() {
	f.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	for _, key := range []string{"team-a/bulk-000", "team-a/bulk-005", "team-b/bulk-006", "team-c/bulk-007", "team-a/odd.dots-and-9"} {
		ns, name, _ := strings.Cut(key, "/")
		err := f.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(ns).Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil {
			f.tb.Errorf("delete %s: %v", key, err)
		}
	}
}

// certificates returns the contents of objects in certificates.k8s.io, as YAML.
func certificates(tb testing.TB) (request, authority string) {
	tb.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatalf("make key: %v", err)
	}
	subject := pkix.Name{CommonName: "differential"}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, private)
	if err != nil {
		tb.Fatalf("make signing request: %v", err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: subject, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, ca, ca, public, private)
	if err != nil {
		tb.Fatalf("make authority: %v", err)
	}
	inYAML, err := json.Marshal(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	if err != nil {
		tb.Fatalf("quote certificate: %v", err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr})), string(inYAML)
}
