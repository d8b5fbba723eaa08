package crds

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// conversionWebhook is a conversion webhook. It renames spec.text of v1 to spec.words in v2.
// The last part of the path of a request says how it misbehaves.
type conversionWebhook struct {
	url string
	// ca is the certificate authority, encoded as definitions have it.
	ca string
	// counts has the counts of each path under /count.
	counts webhookCounts
}

func startConversionWebhook(t *testing.T) *conversionWebhook {
	t.Helper()
	h := &conversionWebhook{}
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	h.url, h.ca = server.URL, base64.StdEncoding.EncodeToString(encodeCertificate(server.Certificate()))
	return h
}

// ServeHTTP implements http.Handler.
func (h *conversionWebhook) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var review apiextensionsv1.ConversionReview
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	path, counted := strings.CutPrefix(req.URL.Path, "/count/")
	if counted && !h.counts.count(w, req, path, len(review.Request.Objects)) {
		return
	}
	review.Response = &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range review.Request.Objects {
		var o map[string]any
		if err := json.Unmarshal(raw.Raw, &o); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if metadata, _ := o["metadata"].(map[string]any); counted && metadata["name"] == h.counts.refused(path) {
			review.Response.Result = metav1.Status{Status: metav1.StatusFailure, Message: "this one is not to be converted"}
		}
		convertTo(o, review.Request.DesiredAPIVersion)
		misbehave(o, req.URL.Path)
		changed, _ := json.Marshal(o)
		review.Response.ConvertedObjects = append(review.Response.ConvertedObjects, runtime.RawExtension{Raw: changed})
	}
	switch req.URL.Path {
	case "/refuse":
		review.Response.Result = metav1.Status{Status: metav1.StatusFailure, Message: "this is not to be converted"}
		review.Response.ConvertedObjects = nil
	case "/error":
		http.Error(w, "out of order", http.StatusInternalServerError)
		return
	case "/uid":
		review.Response.UID = "other"
	case "/fewer":
		review.Response.ConvertedObjects = nil
	case "/none":
		review.Response = nil
	}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(&review)
}

func convertTo(o map[string]any, version string) {
	o["apiVersion"] = version
	spec, ok := o["spec"].(map[string]any)
	if !ok {
		return
	}
	from, to := "words", "text"
	if strings.HasSuffix(version, "/v2") {
		from, to = to, from
	}
	if value, ok := spec[from]; ok {
		spec[to] = value
		delete(spec, from)
	}
}

func misbehave(o map[string]any, path string) {
	metadata, _ := o["metadata"].(map[string]any)
	switch path {
	case "/rename":
		metadata["name"] = "another"
	case "/label":
		metadata["labels"] = map[string]any{"by": "hook"}
	case "/version":
		o["apiVersion"] = "other.example.com/v9"
	case "/invalid":
		o["spec"] = map[string]any{"text": 5, "words": 5}
	}
}
