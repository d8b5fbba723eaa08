package counterpart

import (
	"slices"
	"strings"
	"testing"
)

// TestCounterparts is the check of this module. It fails after an upgrade of Kubernetes
// that changed what functions of ours stand beside.
func TestCounterparts(t *testing.T) {
	messages, err := CheckTree("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range messages {
		t.Error(message)
	}
}

// TestCheck checks the messages for each kind of difference.
func TestCheck(t *testing.T) {
	same, changed := markOf("Same", "kube.same", 3), markOf("Changed", "kube.changed", 9)
	gone, second := markOf("Gone", "kube.gone", 12), markOf("Changed", "read.second", 15)
	other := markOf("Tagged", "kube.tagged", 18)
	const advice = `Run "make upstream-diff FROM=v1.1.0 TO=v1.2.0"`
	for _, c := range []struct {
		name            string
		accepted, marks []Mark
		version         string
		want            []string
	}{
		{"nothing", []Mark{same, changed}, []Mark{same, changed}, "old", nil},
		{"a new version", []Mark{same}, []Mark{same}, "new", []string{
			"internal/build/counterpart/counterparts.tsv was accepted at k8s.io/kubernetes v1.1.0, but go.mod requires v1.2.0. " + advice + `, make ours follow, then run "make upstream-accept".`,
		}},
		{"a change", []Mark{changed, second}, []Mark{changed, second}, "new", []string{
			"k8s.io/apiserver/pkg/kinds.Changed has changed between k8s.io/apiserver v0.1.0 and v0.2.0. Beside it: kube.changed, read.second. " + advice + `, make ours follow, then run "make upstream-accept".`,
			"was accepted at",
		}},
		{"gone", []Mark{gone}, []Mark{gone}, "new", []string{
			"internal/apiserver/kube/chain.go:12: the counterpart of kube.gone is gone: not declared: k8s.io/apiserver v0.2.0 has no k8s.io/apiserver/pkg/kinds.Gone. " + advice + " to find what took its place, and name that in the mark.",
			"was accepted at",
		}},
		{"a mark without a row", []Mark{same}, []Mark{same, other}, "old", []string{
			`internal/build/counterpart/counterparts.tsv lacks k8s.io/apiserver/pkg/kinds.Tagged, which kube.tagged names at internal/apiserver/kube/chain.go:18. Run "make upstream-accept".`,
		}},
		{"a row without a mark", []Mark{same, other}, []Mark{same}, "old", []string{
			`internal/build/counterpart/counterparts.tsv lists k8s.io/apiserver/pkg/kinds.Tagged, which no mark names. Run "make upstream-accept".`,
		}},
		{"another mark", []Mark{changed}, []Mark{changed, second}, "old", []string{
			`internal/build/counterpart/counterparts.tsv lists kube.changed beside k8s.io/apiserver/pkg/kinds.Changed, but the marks are at kube.changed, read.second. Run "make upstream-accept".`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			table, err := NewTable(c.accepted, fixtures(t, "old"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := Check(c.marks, fixtures(t, c.version), table)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got, c.want, strings.Contains) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestCheckComparesTheModule(t *testing.T) {
	marks := []Mark{markOf("Same", "kube.same", 3)}
	modules := fixtures(t, "old")
	table, err := NewTable(marks, modules)
	if err != nil {
		t.Fatal(err)
	}
	table.Rows[0].Module = "k8s.io/other"
	got, err := Check(marks, modules, table)
	if err != nil || len(got) != 1 || !strings.Contains(got[0], "is in k8s.io/other, but it is in k8s.io/apiserver") {
		t.Errorf("got %q, %v", got, err)
	}
}
