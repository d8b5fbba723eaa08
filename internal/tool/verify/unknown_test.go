package verify_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/tool/verify"
)

// newLossyAPI starts a proxy of a server that keeps all promises. The proxy loses the answer to
// some writes, or the request, and breaks some watches before their first frame.
func newLossyAPI(t *testing.T) *rest.Config {
	t.Helper()
	var writes, watches atomic.Int64
	return newProxyAPI(t, newFakeAPI(t, ""), func(w http.ResponseWriter, req *http.Request, server http.Handler) {
		resource := strings.Contains(req.URL.Path, "/leases") || strings.Contains(req.URL.Path, "/registers")
		fixture := !resource || !strings.Contains(req.URL.Path, "/namespaces/") || strings.HasSuffix(req.URL.Path, "/leases") && req.Method == http.MethodDelete
		if req.URL.Query().Get("watch") == "true" {
			switch watches.Add(1) % 5 {
			case 0:
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"type":"ERROR","object":{"kind":"Status","code":500,"reason":"InternalError","message":"context deadline exceeded"}}`)
				return
			case 1:
				w.Header().Set("Content-Type", "application/json")
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
		}
		if req.Method == http.MethodGet || fixture {
			server.ServeHTTP(w, req)
			return
		}
		switch writes.Add(1) % 6 {
		case 0:
			server.ServeHTTP(httptest.NewRecorder(), req)
			w.WriteHeader(http.StatusGatewayTimeout)
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			server.ServeHTTP(httptest.NewRecorder(), req)
			panic(http.ErrAbortHandler) // the connection breaks
		default:
			server.ServeHTTP(w, req)
		}
	})
}

// TestUnknownOutcomes checks that lost answers and broken watches are no violations, whether the
// writes have happened or not. It also checks that the run waits for Config.Meanwhile.
func TestUnknownOutcomes(t *testing.T) {
	t.Parallel()
	returned := false
	report, err := verify.Run(context.Background(), verify.Config{
		Servers: []*rest.Config{newLossyAPI(t)}, Duration: 1500 * time.Millisecond, Writers: 3, Readers: 4, Watchers: 6, Rate: 200, Keys: 6, Seed: 1,
		Meanwhile: func(ctx context.Context) {
			<-ctx.Done()
			returned = true
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if report.Violations() > 0 {
		t.Errorf("violations at a right server:\n%s", reportText(t, report))
	}
	if report.Counts.Unknown == 0 || !returned {
		t.Errorf("%d writes of unknown outcome; what ran beside has returned: %v", report.Counts.Unknown, returned)
	}
}
