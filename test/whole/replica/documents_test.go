package replica

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/test/support/harness"
)

// documentRequest asks for a document of discovery or OpenAPI.
type documentRequest struct {
	path   string
	header http.Header
}

// documentAnswer is an answer as it was sent, compressed or not.
type documentAnswer struct {
	status int
	header http.Header
	body   []byte
}

// documentClient sends requests of a user as they are, and follows no redirects.
type documentClient struct {
	*http.Client
	host string
}

func newDocumentClient(t *testing.T, config *rest.Config) documentClient {
	t.Helper()
	config = rest.CopyConfig(config)
	config.DisableCompression = true
	c := documentClient{must(rest.HTTPClientFor(config))(t), config.Host}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

func (c documentClient) get(t *testing.T, r documentRequest) documentAnswer {
	t.Helper()
	req := must(http.NewRequestWithContext(t.Context(), http.MethodGet, c.host+r.path, nil))(t)
	if r.header != nil {
		req.Header = r.header.Clone()
	}
	resp := must(c.Do(req))(t)
	defer resp.Body.Close()
	return documentAnswer{resp.StatusCode, resp.Header, must(io.ReadAll(resp.Body))(t)}
}

// difference tells how two answers differ, "" if they are the same.
func (a documentAnswer) difference(b documentAnswer) string {
	if a.status != b.status {
		return fmt.Sprintf("status %d and %d", a.status, b.status)
	}
	for _, h := range []http.Header{a.header, b.header} {
		for name := range h {
			// Content-Length may be missing. Expires is a year from now.
			if harness.IsVolatileHeader(name) || name == "Content-Length" || name == "Expires" {
				continue
			}
			if !slices.Equal(a.header[name], b.header[name]) {
				return fmt.Sprintf("%s %q and %q", name, a.header[name], b.header[name])
			}
		}
	}
	if (a.header["Expires"] == nil) != (b.header["Expires"] == nil) {
		return "one of them expires"
	}
	if !bytes.Equal(a.body, b.body) {
		at := harness.FirstDifference(a.body, b.body)
		return fmt.Sprintf("bodies of %d and %d bytes from byte %d on", len(a.body), len(b.body), at)
	}
	return ""
}

const (
	aggregated      = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	aggregatedBeta  = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
	kubectlAccept   = aggregated + "," + aggregatedBeta + ",application/json"
	protobufAccept  = "application/vnd.kubernetes.protobuf"
	openAPIProtobuf = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
)

// documentRequests are requests for all kinds of documents in all their forms. Each is sent
// with and without gzip.
func documentRequests() []documentRequest {
	var all []documentRequest
	add := func(path string, accepts ...string) {
		for _, accept := range accepts {
			for _, coding := range []string{"", "gzip, deflate, br"} {
				header := http.Header{}
				if accept != "" {
					header.Set("Accept", accept)
				}
				if coding != "" {
					header.Set("Accept-Encoding", coding)
				}
				all = append(all, documentRequest{path, header})
			}
		}
	}
	add("/api", "", kubectlAccept, "application/yaml", protobufAccept)
	add("/apis", "", kubectlAccept, aggregatedBeta, protobufAccept+strings.TrimPrefix(aggregated, "application/json"), "application/yaml", protobufAccept, "text/html")
	for _, path := range []string{"/version", "/api/v1", "/apis/apps", "/apis/apps/v1", "/apis/" + toys, "/apis/" + toys + "/v1", "/apis/apiregistration.k8s.io/v1", "/apis/nothing", "/apis/apps/v9"} {
		add(path, "", protobufAccept, "application/yaml")
	}
	add("/openapi/v2", "", openAPIProtobuf, "text/plain")
	add("/openapi/v3", "", "application/json")
	add("/openapi/v3/apis/apps/v1", "", "application/com.github.proto-openapi.spec.v3.v1.0+protobuf")
	add("/openapi/v3/apis/apps/v1?hash=0", "")
	add("/openapi/v3/apis/"+toys+"/v1", "")
	return append(all,
		documentRequest{"/apis?timeout=32s", http.Header{"Accept": {kubectlAccept}}},
		documentRequest{"/apis/apps/v1", http.Header{"User-Agent": {"curl/8.0"}}},
		documentRequest{"/apis/apps/v1?pretty=true", nil})
}

// toys is the group of a custom resource that comes and goes.
const toys = "toys.example.com"

func blocks() *apiextensionsv1.CustomResourceDefinition {
	open := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "blocks." + toys},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: toys, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "blocks", Kind: "Block"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &open}},
			}},
		},
	}
}

// documentPair is an upstream with a replica in front of it, for one user.
type documentPair struct{ ours, theirs documentClient }

// agree compares all documents: as they come, and for clients that have them.
func (p documentPair) agree(t *testing.T, when string) {
	t.Helper()
	for _, r := range documentRequests() {
		var theirs documentAnswer
		eventually(t, "equal answers "+when, func() error {
			theirs = p.theirs.get(t, r)
			for range 2 { // the second one is in memory
				if d := theirs.difference(p.ours.get(t, r)); d != "" {
					return notYet("%s %v: %s", r.path, r.header, d)
				}
			}
			return nil
		})
		tag := theirs.header.Get("Etag")
		if tag == "" {
			continue
		}
		known := documentRequest{r.path, r.header.Clone()}
		known.header.Set("If-None-Match", tag)
		theirs = p.theirs.get(t, known)
		if d := theirs.difference(p.ours.get(t, known)); d != "" {
			t.Errorf("%s %v: %s", known.path, known.header, d)
		}
	}
}

// documentTimeout bounds the wait for a document of the upstream. Kubernetes may miss that a
// group was removed, and then keeps it until it reads all groups again, which it does each
// minute.
const documentTimeout = 3 * time.Minute

// shows waits until the upstream's documents tell of a resource, or no longer do. The
// replica's must tell the same from then on.
func (p documentPair) shows(t *testing.T, path, accept, text string, want bool) {
	t.Helper()
	r := documentRequest{path, http.Header{"Accept": {accept}}}
	err := harness.Until(documentTimeout, func() error {
		if theirs := p.theirs.get(t, r); bytes.Contains(theirs.body, []byte(text)) != want {
			return notYet("status %d", theirs.status)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("wait for %q in %s to be %v at the upstream: %v", text, path, want, err)
	}
	if ours := p.ours.get(t, r); bytes.Contains(ours.body, []byte(text)) != want {
		t.Errorf("%s %s: %q is not %v at the replica when it is at the upstream", path, accept, text, want)
	}
}

// TestDocumentsAreTheUpstreams compares the documents of a replica and of its upstream
// byte for byte, with their headers, before and after definitions change.
func TestDocumentsAreTheUpstreams(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t)
	for name, flags := range sources(upstream) {
		t.Run(name, func(t *testing.T) {
			replica := harness.StartReplica(t, upstream, flags...)
			p := documentPair{newDocumentClient(t, replica.Config()), newDocumentClient(t, upstream.Config())}
			p.agree(t, "at first")
			definitions := must(apiextensionsclient.NewForConfig(upstream.Config()))(t).ApiextensionsV1().CustomResourceDefinitions()
			must(definitions.Create(t.Context(), blocks(), metav1.CreateOptions{}))(t)
			seen := must(apiextensionsclient.NewForConfig(replica.Config()))(t).ApiextensionsV1().CustomResourceDefinitions()
			eventually(t, "the definition", func() error {
				if _, err := seen.Get(t.Context(), "blocks."+toys, metav1.GetOptions{ResourceVersion: "0"}); err != nil {
					return notYet("%v", err)
				}
				return nil
			})
			for _, accept := range []string{kubectlAccept, "application/json"} {
				p.shows(t, "/apis", accept, toys, true)
			}
			p.shows(t, "/apis/"+toys+"/v1", "application/json", "blocks", true)
			p.agree(t, "with a definition")
			p.shows(t, "/openapi/v2", openAPIProtobuf, toys, true)
			if err := definitions.Delete(t.Context(), "blocks."+toys, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			p.shows(t, "/apis", kubectlAccept, toys, false)
			p.shows(t, "/apis", "application/json", toys, false)
			p.agree(t, "without the definition")
			metrics := p.ours.get(t, documentRequest{"/metrics", nil}).body
			for _, want := range []string{`millrace_replica_discovery_requests_total{code="200"}`, `millrace_replica_discovery_requests_total{code="304"}`,
				`millrace_replica_discovery_checks_total{result="unchanged"}`, "millrace_replica_discovery_bytes"} {
				if !bytes.Contains(metrics, []byte(want)) {
					t.Errorf("there is no %s", want)
				}
			}
			if bytes.Contains(metrics, []byte(`reason="denied"`)) {
				t.Error("a document was passed on as denied")
			}
		})
	}
}

// TestDocumentsNeedRights compares the documents of users who may not read them.
func TestDocumentsNeedRights(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t)
	admin := clientset(t, upstream.Config())
	reader := account(t, admin, "reader", nil, rbacv1.PolicyRule{NonResourceURLs: []string{"/apis"}, Verbs: []string{"get"}})
	replica := harness.StartReplica(t, upstream, "--authorization-webhook-cache-authorized-ttl=1s")
	for _, name := range []string{"system:discovery", "system:public-info-viewer"} {
		if err := admin.RbacV1().ClusterRoleBindings().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, token := range map[string]string{"reader": reader, "unknown token": "nonsense", "nobody": ""} {
		p := documentPair{newDocumentClient(t, withToken(replica, t, token)), newDocumentClient(t, withToken(upstream, t, token))}
		want := map[string]int{"reader": http.StatusOK, "unknown token": http.StatusUnauthorized, "nobody": http.StatusForbidden}[name]
		for _, r := range documentRequests() {
			if r.header.Get("Accept-Encoding") != "" {
				continue
			}
			eventually(t, "equal answers to "+name, func() error {
				theirs := p.theirs.get(t, r)
				if r.path == "/apis" && r.header.Get("Accept") == kubectlAccept && theirs.status != want {
					return notYet("status %d", theirs.status)
				}
				if d := theirs.difference(p.ours.get(t, r)); d != "" {
					return notYet("%s %v: %s", r.path, r.header, d)
				}
				return nil
			})
		}
	}
}
