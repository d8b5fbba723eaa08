package changingupstream

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"
)

// These are the paths of a Webhook, and values of Shape.Conversion.
const (
	WorkingConversion = "/convert"
	FailingConversion = "/fail"
)

// Webhook is a conversion webhook. It changes the version of objects alone, or fails, as its
// path says.
type Webhook struct{ url, ca string }

// StartWebhook starts a webhook in this process.
func StartWebhook(tb testing.TB) *Webhook {
	tb.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(convert))
	tb.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &Webhook{url: server.URL, ca: base64.StdEncoding.EncodeToString(ca)}
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
