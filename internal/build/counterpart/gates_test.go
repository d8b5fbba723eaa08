package counterpart

import (
	"slices"
	"strings"
	"testing"
)

// TestCheckGates checks the messages about the table of feature gates.
func TestCheckGates(t *testing.T) {
	const complete = "| gate | state |\n| --- | --- |\n| `Kept` | Alpha, off | a | b |\n| `Fresh` | Alpha, off | a | b |\n"
	for _, c := range []struct {
		name, document string
		ours           gateUse
		want           []string
	}{
		{"complete", complete, gateUse{"Kept": "internal/tier/read/options.go"}, nil},
		{"no gate", complete, gateUse{"Enabled": "internal/tier/read/options.go"}, nil},
		{"ours", complete, gateUse{"Columns": "internal/apiserver/crd/scope.go"}, []string{
			"docs/design/feature-gates.md lacks Columns (GA, on), which internal/apiserver/crd/scope.go consults: add a row with what it changes for clients.",
		}},
		{"theirs", "| `Kept` | Alpha, off | a | b |\n", nil, []string{
			"docs/design/feature-gates.md lacks Fresh (Alpha, off), which k8s.io/apiserver/pkg/storage/cacher consults: add a row",
		}},
		{"state", complete + "| `Locked` | GA, on | a | b |\n", nil, []string{
			`docs/design/feature-gates.md says "GA, on" of Locked, which is "GA, on, locked" in Kubernetes v1.2.0: check what the row says, and correct it.`,
		}},
		{"gone", complete + "| `Past` | GA, on, locked | a | b |\n", nil, []string{
			"docs/design/feature-gates.md has Past, which Kubernetes v1.2.0 does not have: remove the row, and the code that consults the gate.",
		}},
		{"later", complete + "| `Future` | Beta, on | a | b |\n", nil, []string{"has Future, which Kubernetes v1.2.0 does not have"}},
		{"twice", complete + "| `Kept` | Alpha, off | a | b |\n", nil, []string{"has two rows for Kept: remove one."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := CheckGates([]byte(c.document), fixtures(t, "new"), c.ours)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got, c.want, strings.Contains) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// TestOurGates checks that names of gates are found by the package that qualifies them.
func TestOurGates(t *testing.T) {
	root := treeOf(t,
		"internal/tier/read/a.go", "package read\n\nimport \"k8s.io/apiserver/pkg/features\"\n\nvar a = enabled(features.WatchList)\n",
		"internal/apiserver/crd/b.go", "package crd\n\nimport crds \"k8s.io/apiextensions-apiserver/pkg/features\"\n\nvar a = enabled(crds.Columns)\n",
		"internal/apiserver/crd/c.go", "package crd\n\nimport \"example.org/features\"\n\nvar a = enabled(features.Foreign)\n",
		"internal/apiserver/crd/d_test.go", "package crd\n\nimport \"k8s.io/apiserver/pkg/features\"\n\nvar a = enabled(features.OnlyInTest)\n",
	)
	got, err := ourGates(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got["WatchList"] != "internal/tier/read/a.go" || got["Columns"] != "internal/apiserver/crd/b.go" {
		t.Errorf("got %v, want WatchList of internal/tier/read/a.go and Columns of internal/apiserver/crd/b.go", got)
	}
}

// TestGatesOfAnUnknownForm checks that a file without the map of gates is an error, and
// not a package without gates.
func TestGatesOfAnUnknownForm(t *testing.T) {
	root := treeOf(t, "pkg/features/kube_features.go", "package features\n\nvar gates = map[string]bool{\"A\": true}\n")
	modules := NewModules(Module{Path: kubernetes, Version: "v1.1.0", Dir: root})
	if _, err := modules.Gates("k8s.io/kubernetes/pkg/features"); err == nil || !strings.Contains(err.Error(), "its form has changed") {
		t.Errorf("error %v, want one that the form has changed", err)
	}
}
