package changingupstream

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Paths of a Webhook, which are values of Shape.Conversion.
const (
	WorkingConversion = "/convert"
	FailingConversion = "/fail"
)

// Webhook is a conversion webhook. At WorkingConversion it changes nothing but the version of
// objects. At FailingConversion it fails.
type Webhook struct{ url, ca string }

// StartWebhook starts a webhook in this process.
func StartWebhook(tb testing.TB) *Webhook {
	tb.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(convert))
	tb.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &Webhook{url: server.URL, ca: base64.StdEncoding.EncodeToString(ca)}
}

// convert answers a conversion review.
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
	if req.URL.Path == FailingConversion || json.NewDecoder(req.Body).Decode(&review) != nil {
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
