package discovery_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	_ "k8s.io/kube-aggregator/pkg/apiserver" // registers the types of its scheme
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"

	"github.com/millrace/millrace/internal/apiserver/discovery"
)

var own = metav1.APIGroup{
	Name:             "apiregistration.k8s.io",
	Versions:         []metav1.GroupVersionForDiscovery{{GroupVersion: "apiregistration.k8s.io/v1", Version: "v1"}},
	PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: "apiregistration.k8s.io/v1", Version: "v1"},
}

func newServer(t testing.TB) *discovery.Server {
	t.Helper()
	s, err := discovery.New(discovery.Config{Aggregator: aggregatorscheme.Codecs, Extensions: apiextensionsapiserver.Codecs})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ask(h http.Handler, path string, header http.Header) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, path, nil)
	req.Header = header.Clone()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// compare finds differences between two answers, after decompression.
func compare(t *testing.T, what string, ours, theirs *httptest.ResponseRecorder) {
	t.Helper()
	if ours.Code != theirs.Code {
		t.Errorf("%s: status %d, Kubernetes has %d", what, ours.Code, theirs.Code)
	}
	if !maps.EqualFunc(ours.Header(), theirs.Header(), slices.Equal) {
		t.Errorf("%s: headers %v, Kubernetes has %v", what, ours.Header(), theirs.Header())
	}
	a, b := plain(t, ours), plain(t, theirs)
	if !bytes.Equal(a, b) {
		t.Errorf("%s: body\n%q\nKubernetes has\n%q", what, a[:min(len(a), 3000)], b[:min(len(b), 3000)])
	}
}

func plain(t *testing.T, w *httptest.ResponseRecorder) []byte {
	t.Helper()
	if w.Header().Get("Content-Encoding") == "" {
		return w.Body.Bytes()
	}
	r, err := gzip.NewReader(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return body
}
