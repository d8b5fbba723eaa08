package agentprofile_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/tool/agentprofile"
)

func TestEmbeddedProfiles(t *testing.T) {
	set, err := agentprofile.Open("")
	if err != nil {
		t.Fatal(err)
	}
	names := set.Names()
	for _, name := range []string{"network", "exporter", "logs", "mesh", "gitops", "state-metrics", "offenders"} {
		if !slices.Contains(names, name) {
			t.Errorf("there is no profile %s", name)
		}
	}
	for _, name := range append(names, agentprofile.Kubelet, agentprofile.KubeProxy) {
		p, err := set.Load(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if p.Description == "" {
			t.Errorf("%s has no description", name)
		}
	}
}

// load loads a profile out of a directory that has only this text.
func load(t *testing.T, name, text string) (*agentprofile.Profile, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := agentprofile.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return set.Load(name)
}

func TestOwnProfile(t *testing.T) {
	p, err := load(t, "mine", `
agents:
- name: a
  backoff: {first: 1s, longest: 1m}
  reads:
  - {resource: v1/pods, namespace: ns, mode: poll, every: 10s-20s, resourceVersion: unset}
  - {resource: apps/v1/deployments, timeout: 10s}
  - {resource: mills.example.com/v1/mills}
`)
	if err != nil {
		t.Fatal(err)
	}
	a := p.Agents[0]
	if a.Per != agentprofile.PerNode || a.Instances != 1 || a.UserAgent != "a" || time.Duration(a.Backoff.Longest) != time.Minute {
		t.Errorf("defaults: %+v", a)
	}
	if every := a.Reads[0].Every; every.Choose(0) != 10*time.Second || every.Choose(1) != 20*time.Second {
		t.Errorf("every: %+v", every)
	}
	if timeout := a.Reads[1].Timeout; timeout.Min != 9*time.Second || timeout.Max != 11*time.Second {
		t.Errorf("one time alone: %+v", timeout)
	}
	for i, want := range []string{"/api/v1/namespaces/ns/pods", "/apis/apps/v1/deployments", "/apis/mills.example.com/v1/mills"} {
		if r := &a.Reads[i]; r.Path(r.Namespace, "") != want || r.BuiltIn() != (i < 2) {
			t.Errorf("path %s, built in: %v", r.Path(r.Namespace, ""), r.BuiltIn())
		}
	}
}

func TestMistakesInProfiles(t *testing.T) {
	read := func(text string) string { return "agents: [{name: a, reads: [{" + text + "}]}]" }
	for text, want := range map[string]string{
		"agents: []":                            "no agents",
		"agents: [{name: a}]":                   "no reads",
		"agents: [{reads: [{resource: v1/a}]}]": "no name",
		"agents: [{name: a, per: rack, reads: [{resource: v1/a}]}]": "choose node or cluster",
		read("resource: pods"):                                   "v1/pods",
		read("resource: v1/pods, mode: look"):                    "choose watch-list",
		read("resource: v1/pods, mode: poll"):                    "every",
		read("resource: v1/pods, form: xml"):                     "choose json",
		read("resource: x.example.com/v1/x, form: protobuf"):     "no protobuf",
		read("resource: v1/pods, resourceVersion: '5'"):          "choose",
		read("resource: v1/pods, mode: get, every: 1s"):          "name",
		read("resource: v1/pods, mode: list, noBookmarks: true"): "are for watches",
		read("resource: v1/pods, timeout: 10"):                   "no time",
		read("resource: v1/pods, timeout: 10s-5s"):               "shorter",
		read("resource: v1/pods, ownPods: true"):                 "kubelet alone",
		read("resource: v1/pods, lables: a"):                     "lables",
	} {
		if _, err := load(t, "mine", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, not %q", text, err, want)
		}
	}
	if _, err := load(t, "kubelet", read("resource: v1/pods")); err == nil {
		t.Error("a kubelet without its pods is accepted")
	}
	set, err := agentprofile.Open("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := set.Load("nosuch"); err == nil || !strings.Contains(err.Error(), "choose from exporter, ") {
		t.Errorf("an unknown profile: %v", err)
	}
	if _, err := agentprofile.Open(t.TempDir()); err == nil {
		t.Error("a directory without profiles is accepted")
	}
}
