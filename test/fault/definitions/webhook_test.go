package definitions

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"
)

const (
	workingConversion = "/convert"
	failingConversion = "/fail"
)

// webhook is a conversion webhook. It changes the version of objects alone, or fails, as its
// path says.
type webhook struct{ url, ca string }

func startWebhook(t *testing.T) *webhook {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(convert))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &webhook{url: server.URL, ca: base64.StdEncoding.EncodeToString(ca)}
}

func convert(w http.ResponseWriter, req *http.Request) {
	var review struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Request    struct {
			UID               string           `json:"uid"`
			DesiredAPIVersion string           `json:"desiredAPIVersion"`
			Objects           []map[string]any `json:"objects"`
		} `json:"request"`
	}
	if req.URL.Path == failingConversion || json.NewDecoder(req.Body).Decode(&review) != nil {
		http.Error(w, "out of order", http.StatusInternalServerError)
		return
	}
	for _, o := range review.Request.Objects {
		o["apiVersion"] = review.Request.DesiredAPIVersion
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": review.APIVersion, "kind": review.Kind,
		"response": map[string]any{
			"uid": review.Request.UID, "convertedObjects": review.Request.Objects, "result": map[string]any{"status": "Success"},
		},
	})
}
