package lint

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestLinks asks the go command what each program and package of the table links.
func TestLinks(t *testing.T) {
	root, err := Root(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range linkRules() {
		cmd := exec.Command("go", "list", "-deps", "./"+rule.Package)
		cmd.Dir = root
		printed, err := cmd.Output()
		if err != nil {
			t.Fatalf("list what %s links: %v", rule.Package, err)
		}
		linked := strings.Fields(string(printed))
		if at := slices.IndexFunc(linked, rule.bans); at >= 0 {
			t.Errorf("%s links %s: %s. Find the import with: go mod why, or go list -deps", rule.Package, linked[at], rule.Reason)
		}
	}
}

func TestLinkRuleBansPathsBelow(t *testing.T) {
	rule := LinkRule{Banned: []string{"k8s.io/api"}}
	for path, want := range map[string]bool{"k8s.io/api": true, "k8s.io/api/core/v1": true, "k8s.io/apimachinery/pkg/types": false, "k8s.io": false} {
		if got := rule.bans(path); got != want {
			t.Errorf("%s: banned %v, want %v", path, got, want)
		}
	}
}
