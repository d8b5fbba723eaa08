package upstream_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/replica/upstream"
)

// fakeAPI is an API server that answers what a replica asks at its start.
type fakeAPI struct {
	version version.Info
	// published is not told if it is hidden.
	published map[string]string
	hidden    bool
	// reviews counts questions about rights, of which the first allowed ones are answered with
	// yes. They are not answered until silent is closed, unless it is nil.
	reviews, allowed int
	silent           chan struct{}
	// user is the name of the replica's user, "" if nobody tells.
	user string
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var answer any
	switch req.URL.Path {
	case "/version":
		answer = f.version
	case "/api":
		answer = metav1.APIVersions{Versions: []string{"v1"}}
	case "/apis":
		answer = metav1.APIGroupList{Groups: []metav1.APIGroup{{
			Name:             "apps",
			Versions:         []metav1.GroupVersionForDiscovery{{GroupVersion: "apps/v1beta9", Version: "v1beta9"}, {GroupVersion: "apps/v1", Version: "v1"}},
			PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: "apps/v1", Version: "v1"},
		}}}
	case "/api/v1":
		answer = metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods"}, {Name: "pods/log"}}}
	case "/apis/apps/v1", "/apis/apps/v1beta9":
		answer = metav1.APIResourceList{GroupVersion: strings.TrimPrefix(req.URL.Path, "/apis/"), APIResources: []metav1.APIResource{{Name: "deployments"}}}
	case "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
		f.reviews++
		if f.silent != nil {
			<-f.silent
		}
		answer = authorizationv1.SelfSubjectAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
			Status:   authorizationv1.SubjectAccessReviewStatus{Allowed: f.reviews <= f.allowed},
		}
	case "/apis/authentication.k8s.io/v1/selfsubjectreviews":
		if f.user == "" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		answer = authenticationv1.SelfSubjectReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"},
			Status:   authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: f.user}},
		}
	case "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication":
		if f.hidden {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		answer = corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: f.published}
	default:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func readUpstream(t *testing.T, f *fakeAPI, own version.Info) *upstream.Upstream {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	u, err := upstream.New(upstream.Config{Door: newDoor(t, upstream.DoorConfig{Upstream: &rest.Config{Host: server.URL}}), Own: own, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = u.Read()
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestUpstreamIsDescribed reads what an upstream serves, and compares minor versions.
func TestUpstreamIsDescribed(t *testing.T) {
	t.Parallel()
	own := version.Info{Major: "1", Minor: "36"}
	for theirs, skew := range map[version.Info]int{
		{Major: "1", Minor: "36", GitVersion: "v1.36.9"}: 0, {Major: "1", Minor: "36+", GitVersion: "v1.36.1-eks"}: 0,
		{Major: "1", Minor: "36", EmulationMajor: "1", EmulationMinor: "35"}: -1, {Major: "1", Minor: "37", EmulationMajor: "1", EmulationMinor: "36"}: 0,
		{Major: "1", Minor: "35"}: -1, {Major: "1", Minor: "38+"}: 2, {Major: "1", Minor: ""}: math.MaxInt, {Major: "2", Minor: "36"}: math.MaxInt,
	} {
		if u := readUpstream(t, &fakeAPI{version: theirs}, own); u.Skew() != skew {
			t.Errorf("version %v: skew %d, want %d", theirs, u.Skew(), skew)
		}
	}
	upgraded := &fakeAPI{version: own}
	changing := readUpstream(t, upgraded, own)
	for minor, skew := range map[string]int{"37": 1, "36": 0} {
		upgraded.version.Minor = minor
		upgraded.version.GitVersion = "v1." + minor
		if version, err := changing.ReadVersion(t.Context()); version != "v1."+minor || err != nil {
			t.Errorf("version %q, %v", version, err)
		}
		if err := changing.Read(); err != nil || changing.Skew() != skew {
			t.Errorf("minor version %s: skew %d, %v", minor, changing.Skew(), err)
		}
	}
	u := readUpstream(t, &fakeAPI{version: own}, own)
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	if !u.Serves(deployments.WithVersion("v1beta9")) || u.Serves(deployments.WithVersion("v2")) {
		t.Error("the versions of deployments are wrong")
	}
	if gvr, ok := u.PreferredVersion(deployments); !ok || gvr.Version != "v1" {
		t.Errorf("deployments are preferred in %v", gvr)
	}
	if _, ok := u.PreferredVersion(schema.GroupResource{Resource: "nodes"}); ok || len(u.Versions()) != 3 {
		t.Errorf("nodes are served, or not 3 versions: %v", u.Versions())
	}
}

// TestMayImpersonate asks for both rights, and again only after a while.
func TestMayImpersonate(t *testing.T) {
	t.Parallel()
	f := &fakeAPI{allowed: 1}
	u := readUpstream(t, f, version.Info{})
	for range 3 {
		if u.MayImpersonate(t.Context()) { // it may name users, but no groups
			t.Error("a replica that may not name groups may impersonate")
		}
	}
	if f.reviews != 2 {
		t.Errorf("the upstream was asked %d times, want 2", f.reviews)
	}
}

// TestMayImpersonateTogether lets many ask at once while the upstream does not answer. They
// cost it one question, and none waits for longer than its request lasts.
func TestMayImpersonateTogether(t *testing.T) {
	t.Parallel()
	f := &fakeAPI{allowed: 1}
	u := readUpstream(t, f, version.Info{})
	f.silent = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	var ask sync.WaitGroup
	for range 20 {
		ask.Go(func() {
			if u.MayImpersonate(ctx) {
				t.Error("may impersonate without an answer")
			}
		})
	}
	cancel()
	ask.Wait()
	close(f.silent)
	if u.MayImpersonate(t.Context()); f.reviews > 2 {
		t.Errorf("the upstream was asked %d times, want 2", f.reviews)
	}
}

// TestAdviseDelegation asks for the rights to ask about users and about their rights. The
// advice names the replica's user.
func TestAdviseDelegation(t *testing.T) {
	t.Parallel()
	const command = "kubectl create clusterrolebinding millrace-replica-delegator --clusterrole=system:auth-delegator "
	for _, c := range []struct {
		allowed    int
		user, want string
	}{
		{2, "tom", ""},
		{1, "tom", command + "--user=tom"},
		{0, "system:serviceaccount:agents:replica", command + "--serviceaccount=agents:replica"},
		{0, "", command + "--user=USER"},
	} {
		u := readUpstream(t, &fakeAPI{allowed: c.allowed, user: c.user}, version.Info{})
		if got, err := u.AdviseDelegation(t.Context()); got != c.want || err != nil {
			t.Errorf("%d rights of %q: advice %q, %v, want %q", c.allowed, c.user, got, err, c.want)
		}
	}
}
