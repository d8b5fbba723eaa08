package counterpart

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFindEachKind finds a declaration of each kind, and checks its parts and a text that
// its source has.
func TestFindEachKind(t *testing.T) {
	modules := fixtures(t, "old")
	for _, c := range []struct {
		name  string
		parts []string
		text  string
	}{
		{"Same", []string{"Same"}, "// Same is a function of which only comments change.\nfunc Same(a int) int {"},
		{"Value.ByValue", []string{"Value.ByValue"}, "func (v Value) ByValue() int { return v.n }"},
		{"Pointer.ByPointer", []string{"Pointer.ByPointer"}, "func (p *Pointer) ByPointer() int"},
		{"List.Add", []string{"List.Add"}, "func (l *List[T]) Add(item T)"},
		{"Pair.Swap", []string{"Pair.Swap"}, "func (p Pair[K, V]) Swap"},
		{"Pair", []string{"Pair", "Pair.Swap"}, "type Pair[K comparable, V any] struct"},
		{"Apply", []string{"Apply"}, "func Apply[T any]"},
		{"Alias", []string{"Alias"}, "type Alias = Pair[string, int]"},
		{"InGroup", []string{"InGroup"}, "\t// InGroup is a type in a group.\n\tInGroup struct {"},
		{"Fetcher", []string{"Fetcher"}, "type Fetcher interface"},
		{"Fetcher.Fetch", []string{"Fetcher.Fetch"}, "\t// Fetch gets it.\n\tFetch(name string) error"},
		{"Fetcher.Close", []string{"Fetcher.Close"}, "Close()"},
		{"WithMethods", []string{"WithMethods", "WithMethods.Kept", "WithMethods.Edited", "WithMethods.Removed"}, "type WithMethods struct"},
		{"WithMethods.DeepCopy", []string{"WithMethods.DeepCopy"}, "DeepCopy()"},
		{"Single", []string{"Single"}, "const Single = 1"},
		{"Two", []string{"Two"}, `Two = "two"`},
		{"Third", []string{"Third"}, "First = iota\n\tSecond\n\tThird"},
		{"Variable", []string{"Variable"}, "var Variable ="},
		{"Beside", []string{"Beside"}, "Grouped, Beside = 1, 2"},
		{"Raw", []string{"Raw"}, "`first\n\nthird`"},
		{"Platform", []string{"Platform in platform_linux.go", "Platform in platform_windows.go"}, `return "linux"`},
		{"Tagged", []string{"Tagged"}, "func Tagged()"},
	} {
		declaration := find(t, modules, kinds+c.name)
		var parts []string
		for _, part := range declaration.Parts {
			parts = append(parts, part.Name)
		}
		if !slices.Equal(parts, c.parts) {
			t.Errorf("%s has parts %q, want %q", c.name, parts, c.parts)
		}
		if text := declaration.Parts[0].Text; !strings.Contains(text, c.text) {
			t.Errorf("%s is %q, which lacks %q", c.name, text, c.text)
		}
	}
}

// TestFindBelowADotInThePath checks that the dot of an import path is none before a name.
func TestFindBelowADotInThePath(t *testing.T) {
	if got := find(t, fixtures(t, "old"), "example.org/yaml.v3.Unmarshal").Module.Path; got != "example.org/yaml.v3" {
		t.Errorf("the module is %s", got)
	}
}

func TestPartsKnowTheirPlace(t *testing.T) {
	part := find(t, fixtures(t, "old"), kinds+"Changed").Parts[0]
	if part.File != "pkg/kinds/kinds.go" || part.Line != 12 {
		t.Errorf("Changed begins at %s:%d, want pkg/kinds/kinds.go:12, where its comment begins", part.File, part.Line)
	}
}

func TestFindNothing(t *testing.T) {
	modules := fixtures(t, "new")
	for name, text := range map[string]string{
		kinds + "Gone":             "k8s.io/apiserver v0.2.0 has no k8s.io/apiserver/pkg/kinds.Gone",
		kinds + "Value.Changed":    "has no k8s.io/apiserver/pkg/kinds.Value.Changed",
		kinds + "OnlyInTest":       "has no",
		kinds + "Value.n":          "has no",
		"k8s.io/apiserver/pkg/x.F": "k8s.io/apiserver v0.2.0 has no package k8s.io/apiserver/pkg/x",
		"example.com/other.F":      "no module provides example.com/other",
		"k8s.io/apiserver/pkg":     "has no identifier",
	} {
		_, err := modules.Find(name)
		if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: error %v, want one that it is not declared, with %q", name, err, text)
		}
	}
	// A module that is not on this machine says nothing about its declarations.
	if _, err := modules.Find("example.org/missing.F"); errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "go mod download example.org/missing") {
		t.Errorf("a missing module: error %v, want one that says to download it", err)
	}
}

// TestDigest compares the two versions of each declaration. Comments, blank lines, and
// generated methods of a type do not count; all else does.
func TestDigest(t *testing.T) {
	from, to := fixtures(t, "old"), fixtures(t, "new")
	for name, same := range map[string]bool{
		"Same": true, "InGroup": true, "Single": false, "Changed": false,
		"Value.ByValue": false, "Pointer.ByPointer": false, "List.Add": false, "Pair.Swap": false,
		"Pair": false, "Apply": false, "Alias": false, "Value": false, "Pointer": false,
		"Fetcher": false, "Fetcher.Fetch": false, "Fetcher.Close": true,
		"WithMethods": false, "WithMethods.Kept": true, "WithMethods.DeepCopy": false,
		"One": true, "Two": false, "Third": false, "Variable": false, "Beside": false, "Raw": false,
		"Platform": false, "Tagged": false,
	} {
		before, after := find(t, from, kinds+name).Digest(), find(t, to, kinds+name).Digest()
		if (before == after) != same {
			t.Errorf("%s: digests %s and %s, want equal: %v", name, before, after, same)
		}
		if len(before) != 12 {
			t.Errorf("the digest of %s is %q, want 12 digits", name, before)
		}
	}
}

func TestPartsOfKubernetesHaveItsVersion(t *testing.T) {
	list, err := partsOf("testdata/new/kubernetes/go.mod.txt", "v0.2.0")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, module := range list {
		got = append(got, module.Path+" "+module.Version)
	}
	want := []string{"example.org/yaml.v3 v1.1.0", "k8s.io/api v0.2.0", "k8s.io/apiserver v0.2.0", "k8s.io/klog/v2 v2.140.0"}
	if !slices.Equal(got, want) {
		t.Errorf("the modules are %q, want %q", got, want)
	}
}

// TestRequiredFollowsReplacements checks that declarations are found in the directory that
// stands in a module's place.
func TestRequiredFollowsReplacements(t *testing.T) {
	root := treeOf(t,
		"go.mod", "module example.org/m\n\ngo 1.26\n\nrequire example.org/a v1.0.0\n\nreplace example.org/a => ./fork\n",
		"fork/go.mod", "module example.org/a\n\ngo 1.26\n",
		"fork/a.go", "package a\n\nfunc F() {}\n",
	)
	modules, err := RequiredModules(root)
	if err != nil {
		t.Fatal(err)
	}
	if got := find(t, modules, "example.org/a.F"); got.Module.Version != "v1.0.0" || got.Parts[0].File != "a.go" {
		t.Errorf("F is in %s of version %s, want a.go of v1.0.0", got.Parts[0].File, got.Module.Version)
	}
	if _, err := modules.Find("example.org/b.F"); !errors.Is(err, ErrNotFound) {
		t.Errorf("error %v of a module that is not required, want ErrNotFound", err)
	}
}

// TestRequireFollowsRelease writes a release's versions into a go.mod. A module of ours
// alone stays, and so does one that has a fork in its place.
func TestRequireFollowsRelease(t *testing.T) {
	root := treeOf(t, "go.mod", `module example.org/m

go 1.26

require (
	example.org/own v1.0.0
	k8s.io/api v0.1.0
	k8s.io/fork v0.1.0
	k8s.io/kubernetes v1.1.0
)

replace k8s.io/api => k8s.io/api v0.1.0

replace k8s.io/fork => example.org/fork v0.3.0
`)
	release := NewModules(Module{Path: "k8s.io/api", Version: "v0.2.0"}, Module{Path: "k8s.io/fork", Version: "v0.2.0"},
		Module{Path: "k8s.io/kubernetes", Version: "v1.2.0"}, Module{Path: "example.org/other", Version: "v1.0.0"})
	for _, want := range []int{4, 0} {
		if changed, err := Require(root, release); err != nil || changed != want {
			t.Errorf("%d changes, error %v, want %d", changed, err, want)
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"example.org/own v1.0.0", "\tk8s.io/api v0.2.0", "k8s.io/fork v0.2.0", "k8s.io/kubernetes v1.2.0",
		"replace k8s.io/api => k8s.io/api v0.2.0", "replace k8s.io/fork => example.org/fork v0.3.0"} {
		if !strings.Contains(string(text), line) {
			t.Errorf("go.mod lacks %q:\n%s", line, text)
		}
	}
}

func TestReleaseNeedsAVersion(t *testing.T) {
	for _, version := range []string{"1.36.3", "v0.36.3", "latest"} {
		if _, err := Release(version); err == nil || !strings.Contains(err.Error(), "give one as v1.36.3") {
			t.Errorf("%s: error %v, want one that says how a version is written", version, err)
		}
	}
}
