package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/millrace/millrace/test/support/harness"
)

// migratedKinds are collections, and an object of each.
var migratedKinds = map[string]string{
	"/api/v1/namespaces/default/configmaps":                `{"data":{"a":"b"}}`,
	"/api/v1/namespaces/default/secrets":                   `{"stringData":{"a":"b"}}`,
	"/api/v1/namespaces/default/services":                  `{"spec":{"ports":[{"port":80}]}}`,
	"/apis/apps/v1/namespaces/default/deployments":         `{"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
	"/apis/millrace.example/v1/namespaces/default/widgets": `{"apiVersion":"millrace.example/v1","kind":"Widget","spec":{"color":"red"}}`,
}

// TestMigrationAndBack has the stock server, then this one, and then the stock one again serve
// out of one etcd, with a key for secrets. Each reads what the one before has written. In etcd it
// finds the bytes that it would have written itself: an update that changes nothing is not
// written.
func TestMigrationAndBack(t *testing.T) {
	t.Parallel()
	encryption := writeFile(t, filepath.Join(t.TempDir(), "encryption.yaml"), fmt.Sprintf(`{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
"resources": [{"resources": ["secrets"], "providers": [{"aescbc": {"keys": [{"name": "k", "secret": %q}]}}]}]}`, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))))
	s := harness.Start(t, harness.ShortTempDir(t), "--read-path=kubernetes", "--encryption-provider-config="+encryption)
	definition, err := json.Marshal(widgetDefinition(map[string]apiextensionsv1.JSONSchemaProps{"color": stringSchema}))
	check(t, err)
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	if code, body := send(t, s, http.MethodPost, definitions, string(definition)); code != http.StatusCreated {
		t.Fatalf("create the definition: %d %s", code, body)
	}
	written := map[string]string{} // the answer to a GET, by its path
	for i, readPath := range []string{"kubernetes", "millrace", "kubernetes"} {
		if i > 0 {
			check(t, s.Terminate())
			s = s.RestartWith("--read-path=" + readPath)
		}
		for path, before := range written {
			code, body := send(t, s, http.MethodGet, path, "")
			if code != http.StatusOK || body != before {
				t.Errorf("%s: %s has %d\n%s\nwant\n%s", readPath, path, code, body, before)
				continue
			}
			if code, after := send(t, s, http.MethodPut, path, body); code != http.StatusOK || after != before {
				t.Errorf("%s: an update of %s that changes nothing: %d\n%s\nwant\n%s", readPath, path, code, after, before)
			}
		}
		for collection, object := range migratedKinds {
			name := fmt.Sprint("by-", i)
			object = strings.Replace(object, "{", fmt.Sprintf(`{"metadata":{"name":%q},`, name), 1)
			eventually(t, func(context.Context) error { // the definition is new
				if code, body := send(t, s, http.MethodPost, collection, object); code != http.StatusCreated {
					return fmt.Errorf("%s: create in %s: %d %s", readPath, collection, code, body)
				}
				return nil
			})
			path := collection + "/" + name
			_, written[path] = send(t, s, http.MethodGet, path, "")
		}
	}
}

// send sends a request with a body of JSON, and returns the status code and the body.
func send(t *testing.T, s *harness.Server, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	check(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.HTTPClient().Do(req)
	check(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	check(t, err)
	return resp.StatusCode, string(answer)
}
