package lint

import (
	"maps"
	"slices"
	"testing"
)

// TestHouseRules runs every rule on this module.
func TestHouseRules(t *testing.T) {
	root, err := Root(".")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	allowed := exceptions()
	for _, rule := range Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			stale := maps.Clone(allowed[rule.Name])
			for _, finding := range rule.Find(tree) {
				key, ok := allowed[rule.Name].cover(finding)
				if !ok {
					t.Error(finding)
				}
				delete(stale, key)
			}
			for key := range stale {
				t.Errorf("%s: nothing needs this exception any more: remove it from tables.go", key)
			}
		})
	}
}

func TestExceptionsCover(t *testing.T) {
	list := older("a/b", "a/c.go", "a/d.go:f")
	for finding, want := range map[string]string{
		"a/b": "a/b", "a/b/c.go": "a/b", "a/b/c/d.go:f": "a/b", "a/c.go": "a/c.go", "a/c.go:f": "a/c.go", "a/d.go:f": "a/d.go:f",
		"a/bc.go": "", "a": "", "a/d.go": "", "a/d.go:g": "",
	} {
		if key, ok := list.cover(Finding{Key: finding}); key != want || ok != (want != "") {
			t.Errorf("%s is covered by %q, want %q", finding, key, want)
		}
	}
}

func TestExceptionsHaveRuleAndReason(t *testing.T) {
	var names []string
	for _, rule := range Rules() {
		names = append(names, rule.Name)
	}
	for name, list := range exceptions() {
		if !slices.Contains(names, name) {
			t.Errorf("there is no rule %q", name)
		}
		for key, reason := range list {
			if reason == "" {
				t.Errorf("the exception of %s for %s has no reason", name, key)
			}
		}
	}
}
