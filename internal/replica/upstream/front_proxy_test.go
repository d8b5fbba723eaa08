package upstream_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/replica/upstream"
)

const userHeaders, uidHeaders, groupHeaders, extraPrefixes = "requestheader-username-headers", "requestheader-uid-headers", "requestheader-group-headers", "requestheader-extra-headers-prefix"

// TestFrontProxyHeaders refuses an upstream to which a Proxy cannot name users by headers.
func TestFrontProxyHeaders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		published map[string]string
		ok        bool
	}{
		{map[string]string{userHeaders: `["X-Remote-User"]`, groupHeaders: `["x-remote-group"]`}, true},
		{map[string]string{userHeaders: `["x-remote-user"]`, uidHeaders: `["X-Remote-Uid"]`, extraPrefixes: `["X-Remote-Extra-"]`}, true},
		{map[string]string{userHeaders: `["X-Remote-User","X-User"]`}, false},
		{map[string]string{userHeaders: `["X-Remote-User"]`, groupHeaders: `["X-Group"]`}, false},
		{map[string]string{userHeaders: `["X-Remote-User"]`, extraPrefixes: `["X-Extra-"]`}, false},
		{map[string]string{userHeaders: `["X-Remote-Name"]`}, false},
		{map[string]string{groupHeaders: `["X-Remote-Group"]`}, false},
		{map[string]string{groupHeaders: `malformed`}, false},
		{nil, false},
	} {
		u := readUpstream(t, &fakeAPI{published: c.published}, version.Info{})
		if err := u.FrontProxy().Check(); (err == nil) != c.ok {
			t.Errorf("%v: %v", c.published, err)
		}
	}
}

// TestFrontProxyHeadersOfOthersAreDropped: no client names a user by a header that the upstream
// takes from front proxies, also after the upstream has changed these.
func TestFrontProxyHeadersOfOthersAreDropped(t *testing.T) {
	t.Parallel()
	f := &fakeAPI{published: map[string]string{userHeaders: `["X-Remote-User","x-user"]`, groupHeaders: `["X-Group"]`, uidHeaders: `["X-Id"]`, extraPrefixes: `["X-More-"]`}}
	u := readUpstream(t, f, version.Info{})
	var seen http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { seen = req.Header }))
	t.Cleanup(server.Close)
	counters := newMetrics(t)
	proxy := upstream.NewProxy(upstream.ProxyConfig{
		Door:           newDoor(t, upstream.DoorConfig{Upstream: &rest.Config{Host: server.URL}, Metrics: counters}),
		MayImpersonate: func(context.Context) bool { return false }, FrontProxy: u.FrontProxy, Serializer: scheme.Codecs, Metrics: counters,
	})
	ask := func(names ...string) (reached []string) {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		for _, name := range names {
			req.Header.Set(name, "root")
		}
		proxy.ServeHTTP(httptest.NewRecorder(), req.WithContext(request.WithUser(req.Context(), &user.DefaultInfo{Name: "tom"})))
		for _, name := range names {
			if seen.Get(name) != "" {
				reached = append(reached, name)
			}
		}
		return reached
	}
	if reached := ask("X-Remote-User", "X-Remote-Group", "X-Remote-Extra-A", "X-User", "X-Group", "X-Id", "X-More-A"); reached != nil {
		t.Errorf("the upstream was told %v", reached)
	}
	if reached := ask("X-Name", "X-Userx"); len(reached) != 2 {
		t.Errorf("only %v reached the upstream", reached)
	}
	for _, hidden := range []bool{false, true} { // what was read stays
		f.published, f.hidden = map[string]string{userHeaders: `["X-Name"]`}, hidden
		if err := u.Read(); err != nil {
			t.Fatal(err)
		}
		if reached := ask("X-Remote-User", "X-Name"); reached != nil {
			t.Errorf("after a change the upstream was told %v", reached)
		}
	}
}
