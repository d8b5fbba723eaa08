package openapi_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/apiserver/openapi"
)

// TestLogger checks that the configured logger receives documents that cannot be read or
// built.
func TestLogger(t *testing.T) {
	var log bytes.Buffer
	server, err := openapi.New(openapi.Config{
		Catalog: newCatalog(), Version: "test", Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Locals: func() []openapi.Local { return []openapi.Local{aggregator().local()} },
	})
	if err != nil {
		t.Fatal(err)
	}
	noJSON := server.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("no JSON"))
	}))
	if code := get(noJSON, "/openapi/v3").Code; code != http.StatusOK {
		t.Errorf("the root answers %d, want 200: our own documents do not depend on the next handler", code)
	}
	if got := log.String(); !strings.Contains(got, `msg="OpenAPI v3 root of the aggregation layer cannot be read" err=`) {
		t.Errorf("the logger received %q", got)
	}
}
