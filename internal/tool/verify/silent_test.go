package verify_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/tool/verify"
)

// newProxyAPI starts a proxy of a server. answer answers each request; its server passes one on.
func newProxyAPI(t *testing.T, server *rest.Config, answer func(w http.ResponseWriter, req *http.Request, server http.Handler)) *rest.Config {
	t.Helper()
	to, err := url.Parse(server.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { answer(w, req, proxy) }))
	t.Cleanup(listening.Close)
	return &rest.Config{Host: listening.URL}
}

func isWatch(req *http.Request) bool { return req.URL.Query().Get("watch") == "true" }

func isConsistentRead(req *http.Request) bool {
	query := req.URL.Query()
	return req.Method == http.MethodGet && !isWatch(req) && !query.Has("resourceVersion") && !query.Has("continue")
}

// sendNothing answers a watch without a frame.
func sendNothing(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.(http.Flusher).Flush()
	select {
	case <-time.After(100 * time.Millisecond):
	case <-req.Context().Done():
	}
}

// TestSilentServer lets one of two servers stand still in several ways, while both acknowledge
// writes. It checks that this server is found, and that the other one is not blamed.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	const noWatch, noList = "no watch of %s delivered revision ", "no list of %s was answered within 2s of revision "
	for name, test := range map[string]struct {
		// answer reports whether it has answered a request. If not, the other server does.
		answer func(http.ResponseWriter, *http.Request) bool
		found  []string
	}{
		"nothing-is-shown": {func(w http.ResponseWriter, req *http.Request) bool {
			switch {
			case isWatch(req):
				sendNothing(w, req)
			case isConsistentRead(req):
				w.WriteHeader(http.StatusGatewayTimeout)
			default:
				return false
			}
			return true
		}, []string{noWatch, noList}},
		"reads-are-not-answered": {func(w http.ResponseWriter, req *http.Request) bool {
			if isConsistentRead(req) {
				w.WriteHeader(http.StatusGatewayTimeout)
			}
			return isConsistentRead(req)
		}, []string{noList}},
		"watches-expire": {func(w http.ResponseWriter, req *http.Request) bool {
			switch version := req.URL.Query().Get("resourceVersion"); {
			case isWatch(req) && version != "" && version != "0":
				w.WriteHeader(http.StatusGone)
			case isWatch(req):
				sendNothing(w, req)
			}
			return isWatch(req)
		}, []string{noWatch}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := newFakeAPI(t, "")
			still, stop := context.WithCancel(t.Context())
			silent := newProxyAPI(t, whole, func(w http.ResponseWriter, req *http.Request, whole http.Handler) {
				isObject := strings.Contains(req.URL.Path, "/namespaces/millrace-verify-")
				switch {
				case isObject && still.Err() != nil && test.answer(w, req):
				case isWatch(req) && still.Err() == nil: // it breaks when the server begins to stand still
					ctx, cancel := context.WithCancel(req.Context())
					defer cancel()
					defer context.AfterFunc(still, cancel)()
					whole.ServeHTTP(w, req.WithContext(ctx))
				default:
					whole.ServeHTTP(w, req)
				}
			})
			report, err := verify.Run(t.Context(), verify.Config{
				Servers: []*rest.Config{silent, whole}, Duration: time.Second, Writers: 3, Readers: 4, Watchers: 6, Rate: 200, Keys: 6, Seed: 1,
				Settle: 2 * time.Second, Meanwhile: func(context.Context) { stop() },
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, check := range report.Checks {
				if slices.ContainsFunc(check.Violations, func(v verify.Violation) bool { return v.Server == whole.Host }) {
					t.Errorf("the whole server is blamed:\n%s", reportText(t, report))
				}
			}
			found := report.ViolationsOf(verify.Shown, "")
			if want := 2 * len(test.found); len(found) != want {
				t.Errorf("%d violations, not %d:\n%s", len(found), want, reportText(t, report))
			}
			for _, summary := range test.found {
				for _, resource := range []string{"leases", "registers"} {
					if begin := fmt.Sprintf(summary, resource); len(report.ViolationsOf(verify.Shown, begin)) != 1 {
						t.Errorf("%q is not found:\n%s", begin, reportText(t, report))
					}
				}
			}
		})
	}
}
