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
				if _, ok := allowed[rule.Name][finding.Key]; ok {
					delete(stale, finding.Key)
					continue
				}
				t.Error(finding)
			}
			for key := range stale {
				t.Errorf("%s: nothing needs this exception any more: remove it from tables.go", key)
			}
		})
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
