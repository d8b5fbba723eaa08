package transcode

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestObjectsOfOlderVersions sends the objects with all fields set that Kubernetes keeps to
// check that it reads what older versions have stored. Only some are valid and have their
// defaults. The others must be left to Kubernetes.
func TestObjectsOfOlderVersions(t *testing.T) {
	const minKinds, minEqual = 60, 300
	names := apiTestdata(t)
	if len(names) < minKinds {
		t.Fatalf("found objects of %d kinds", len(names))
	}
	counts := map[outcome]int{}
	for _, v := range versions() {
		if v.tables == nil {
			continue
		}
		for target := range mediaTypes {
			l := newLane(t, v, target)
			for _, name := range names[v.kind.String()] {
				stored, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				counts[l.send(t, stored)]++
			}
		}
	}
	t.Log(counts)
	if counts[equal] < minEqual || counts[unread] > 0 {
		t.Errorf("outcomes: %v", counts)
	}
}

// apiTestdata returns the names of stored objects in the module of Kubernetes' API, by kind.
func apiTestdata(t *testing.T) map[string][]string {
	t.Helper()
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		t.Fatalf("find the module of the API: %v", err)
	}
	all, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(module)), "testdata", "*", "*.pb"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, name := range all {
		for _, v := range versions() {
			group := v.kind.Group
			if group == "" {
				group = "core"
			}
			if strings.HasPrefix(filepath.Base(name), fmt.Sprintf("%s.%s.%s.", group, v.kind.Version, v.kind.Kind)) {
				found[v.kind.String()] = append(found[v.kind.String()], name)
			}
		}
	}
	return found
}
