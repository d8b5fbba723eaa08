package replica_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// TestRedirectsStayHere: a redirect to the upstream's address leads to the same path of the host that the
// client asked. Others stay as they are.
func TestRedirectsStayHere(t *testing.T) {
	t.Parallel()
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Location", req.URL.Query().Get("to"))
		w.WriteHeader(http.StatusFound)
	}))
	t.Cleanup(u.Close)
	h := setup{}.handler(t, u)
	host := u.Listener.Addr().String()
	for to, want := range map[string]string{
		"http://" + host + "/a%2Fb?c=d": "http://example.com/a%2Fb?c=d", // httptest's requests are for example.com
		"https://other.example/a":       "https://other.example/a",
		"/a":                            "/a",
		"":                              "",
	} {
		read := testRequest{method: http.MethodGet, path: "/api/v1/nodes/n/proxy/?to=" + url.QueryEscape(to), header: bearer("tom")}
		if got := read.to(h).Header().Get("Location"); got != want {
			t.Errorf("a redirect to %q leads to %q, want %q", to, got, want)
		}
	}
}
