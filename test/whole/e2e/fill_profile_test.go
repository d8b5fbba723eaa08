package e2e

import (
	"encoding/json"
	"math"
	"path/filepath"
	"testing"

	"github.com/millrace/millrace/internal/lab/fill"
	"github.com/millrace/millrace/internal/tool/clusterprofile"
	"github.com/millrace/millrace/test/support/harness"
)

// wantedProfile has every resource that fill writes by a profile.
func wantedProfile() *clusterprofile.Profile {
	sizes := func(p50, p90, p99, most float64) *clusterprofile.Sizes {
		return &clusterprofile.Sizes{P50: p50, P90: p90, P99: p99, Max: most}
	}
	p := &clusterprofile.Profile{Resources: []clusterprofile.Resource{
		{Resource: "pods", Objects: 300, Bytes: 8000, Sizes: sizes(7000, 12_000, 20_000, 60_000), Namespaces: 20, LargestNamespace: 75,
			Labels: []clusterprofile.Key{{Key: "app.kubernetes.io/name", Objects: 300, Values: 40}, {Key: "controller-uid", Objects: 90, Values: 90}},
			Fields: []clusterprofile.Key{{Key: "spec.nodeName", Objects: 280, Values: 25}}},
		{Resource: "nodes", Objects: 30, Bytes: 12_000, Sizes: sizes(12_000, 12_500, 13_000, 13_000), Labels: []clusterprofile.Key{{Key: "topology.kubernetes.io/zone", Objects: 30, Values: 3}}},
		{Resource: "configmaps", Objects: 200, Bytes: 6000, Sizes: sizes(2500, 9000, 90_000, 200_000), Namespaces: 30, LargestNamespace: 40},
		{Resource: "deployments.apps", Objects: 170, Bytes: 6500, Sizes: sizes(6000, 9000, 12_000, 14_000), Namespaces: 25, LargestNamespace: 20},
		{Resource: "replicasets.apps", Objects: 170, Bytes: 5500, Sizes: sizes(5000, 8000, 11_000, 12_000), Namespaces: 25, LargestNamespace: 20},
		{Resource: "services", Objects: 170, Bytes: 2200, Sizes: sizes(2000, 3000, 5000, 8000), Namespaces: 25, LargestNamespace: 20},
		{Resource: "endpointslices.discovery.k8s.io", Objects: 170, Bytes: 3000, Sizes: sizes(2500, 5000, 9000, 12_000), Namespaces: 25, LargestNamespace: 20},
		{Resource: "events", Objects: 200, Bytes: 1500, Sizes: sizes(1450, 1700, 2000, 3000), Namespaces: 20, LargestNamespace: 60},
		{Resource: "namespaces", Objects: 40, Bytes: 1200, Sizes: sizes(1200, 1300, 1500, 1500)},
		{Resource: "customresourcedefinitions.apiextensions.k8s.io", Objects: 6, Bytes: 20_000, Sizes: sizes(15_000, 40_000, 60_000, 60_000)},
		{Resource: "certificates.cert-manager.example", Objects: 200, Bytes: 4000, Sizes: sizes(3500, 6000, 9000, 15_000), Namespaces: 20, LargestNamespace: 60,
			Labels: []clusterprofile.Key{{Key: "team", Objects: 150, Values: 7}}},
		{Resource: "clusterissuers.cert-manager.example", Objects: 5, Bytes: 2000, Sizes: sizes(2000, 2100, 2100, 2100)},
	}}
	// As many as a server has, and some.
	others := map[string]float64{"clusterroles.rbac.authorization.k8s.io": 85, "clusterrolebindings.rbac.authorization.k8s.io": 65, "serviceaccounts": 50}
	for _, kind := range fill.ProfileKinds() {
		if name := fill.ResourceName(kind); kind != fill.KindCustomObject && name != "secrets" && p.Find(name) == nil {
			others[name] = max(others[name], 14)
			p.Resources = append(p.Resources, clusterprofile.Resource{Resource: name, Objects: others[name], Bytes: 2500, Sizes: sizes(2500, 2600, 2700, 2800), Namespaces: 10, LargestNamespace: 20})
		}
	}
	return p
}

// TestFillByProfile fills a server by a profile, and compares the server's own profile.
func TestFillByProfile(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.ShortTempDir(t))
	want, file, kubeconfig := wantedProfile(), filepath.Join(t.TempDir(), "profile.json"), "--kubeconfig="+s.Kubeconfig()
	text, err := json.Marshal(want)
	check(t, err)
	writeFile(t, file, string(text))
	if out, code := harness.Run(t, "fill", "--profile="+file, kubeconfig); code != 0 {
		t.Fatalf("fill: %s", out)
	}
	out, code := harness.Run(t, "analyze", "profile", kubeconfig)
	var got clusterprofile.Profile
	if err := json.Unmarshal([]byte(out[max(0, indexOf(out, "{")):]), &got); err != nil || code != 0 {
		t.Fatalf("profile: code %d, %v: %.300s", code, err, out)
	}
	for i := range want.Resources {
		compareResources(t, got.Find(want.Resources[i].Resource), &want.Resources[i])
	}
	if out, code := harness.Run(t, "fill", "--delete", kubeconfig); code != 0 {
		t.Fatalf("delete: %s", out)
	}
	for _, path := range []string{"/api/v1/pods", "/api/v1/namespaces", "/api/v1/persistentvolumes", "/apis/apps/v1/statefulsets", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"} {
		if n := count(t, s, path+"?labelSelector=millrace.io/fill"); n != 0 {
			t.Errorf("left %d objects in %s", n, path)
		}
	}
}

func indexOf(text, part string) int {
	for i := range text {
		if text[i:i+1] == part && (i == 0 || text[i-1] == '\n') {
			return i
		}
	}
	return 0
}

// few objects are so few that those of the server itself change their sizes.
const few = 160

func compareResources(t *testing.T, got, want *clusterprofile.Resource) {
	t.Helper()
	if got == nil {
		t.Errorf("%s: none", want.Resource)
		return
	}
	near := func(what string, got, wanted, part float64) {
		if math.Abs(got-wanted) > part*wanted+.01 {
			t.Errorf("%s: %s is %.0f, want %.0f", want.Resource, what, got, wanted)
		}
	}
	// Servers write events of their own meanwhile.
	near("count", got.Objects, want.Objects, .05)
	if want.Objects < few {
		return
	}
	near("mean", got.Bytes, want.Bytes, .03)
	near("median", got.Sizes.P50, want.Sizes.P50, .05)
	near("90th percentile", got.Sizes.P90, want.Sizes.P90, .05)
	near("99th percentile", got.Sizes.P99, want.Sizes.P99, .05)
	near("largest", got.Sizes.Max, want.Sizes.Max, .05)
	if want.Resource == "events" {
		return // those of the servers are in any namespace
	}
	near("namespaces", got.Namespaces, want.Namespaces, .06)
	near("largest namespace", got.LargestNamespace, want.LargestNamespace, .02)
	for kind, keys := range map[string][2][]clusterprofile.Key{"label": {got.Labels, want.Labels}, "field": {got.Fields, want.Fields}} {
		for _, k := range keys[1] {
			found := false
			for _, other := range keys[0] {
				if other.Key == k.Key {
					found = true
					near(kind+" "+k.Key, other.Objects, k.Objects, 0)
					near("values of "+k.Key, other.Values, k.Values, .1) // which are estimates
				}
			}
			if !found {
				t.Errorf("%s: no %s %s", want.Resource, kind, k.Key)
			}
		}
	}
}
