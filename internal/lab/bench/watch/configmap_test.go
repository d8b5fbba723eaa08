package watch

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

func TestStampedFrame(t *testing.T) {
	at := time.Now()
	template := testbed.ModifiedEvent(append(configMap("all", 3, 1, at), '\n'))
	if strings.Count(string(template), "\n") != 1 || len(template) < 1900 || len(template) > 2600 {
		t.Fatalf("%d bytes: %s", len(template), template)
	}
	later := at.Add(time.Second)
	event := testbed.WithStamp(template, later)
	if len(event) != len(template) || !strings.Contains(string(event), testbed.StampMark+testbed.FormatStamp(later)) || strings.Contains(string(template), testbed.FormatStamp(later)) {
		t.Errorf("got %s of %s", event, template)
	}
	if testbed.ParseStamp([]byte("no digits")) != 0 || testbed.ParseStamp(nil) != 0 {
		t.Error("ParseStamp found a stamp in text without one")
	}
}

func TestContentIsText(t *testing.T) {
	first, second := properties(4, 1), properties(4, 2)
	if first != properties(4, 1) || first == properties(5, 1) {
		t.Error("the text does not depend on the object alone")
	}
	a, b := strings.Split(first, "\n"), strings.Split(second, "\n")
	changed := 0
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			changed++
		}
	}
	if changed == 0 || changed > len(a)/3 {
		t.Errorf("%d of %d lines changed in a round", changed, len(a))
	}
}

// TestRemoveConfigMaps checks that a server which ignores selectors keeps the config maps that the
// bench has not made.
func TestRemoveConfigMaps(t *testing.T) {
	var mu sync.Mutex
	deleted := map[string]string{}
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			deleted[r.URL.Path] = string(body)
			return
		}
		fmt.Fprintf(w, `{"items":[{"metadata":{"name":"mine","uid":"u-1","labels":{%q:"all"}}},{"metadata":{"name":"other"}}]}`, watchLabel)
	}))
	api.EnableHTTP2 = true
	api.StartTLS()
	t.Cleanup(api.Close)
	target, err := testbed.NewTarget(testbed.TargetConfig{REST: &rest.Config{Host: api.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := RemoveConfigMaps(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	if len(deleted) != 1 || !strings.Contains(deleted[configMapsPath+"/mine"], `"uid":"u-1"`) {
		t.Errorf("deleted %v", deleted)
	}
}
