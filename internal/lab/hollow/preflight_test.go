package hollow

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// TestPreflight asks a server that lets the user of the kubeconfig do everything, and nodes
// what they may.
func TestPreflight(t *testing.T) {
	for _, nodes := range []bool{true, false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			kind, allowed := "SelfSubjectAccessReview", true
			if path.Base(r.URL.Path) == "subjectaccessreviews" {
				kind, allowed = "SubjectAccessReview", nodes
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"kind":%q,"apiVersion":"authorization.k8s.io/v1","status":{"allowed":%v}}`, kind, allowed)
		}))
		defer server.Close()
		config := &rest.Config{Host: server.URL}
		admin, err := NewClient(config)
		if err != nil {
			t.Fatal(err)
		}
		for _, impersonate := range []bool{true, false} {
			err := preflight(t.Context(), admin, &Config{REST: config, Impersonate: impersonate})
			refused := err != nil && strings.Contains(err.Error(), "--authorization-mode=Node,RBAC")
			if want := impersonate && !nodes; refused != want || err != nil && !refused {
				t.Errorf("nodes may %v, impersonate %v: got %v", nodes, impersonate, err)
			}
		}
	}
}
