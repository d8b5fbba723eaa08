package counterpart

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files of this package anew")

// TestCompare compares the two versions of the fixtures, with a mark for each case, and
// the output with testdata/compare.txt.
func TestCompare(t *testing.T) {
	marks := []Mark{
		markOf("Same", "kube.same", 3), markOf("InGroup", "kube.same", 4),
		markOf("Changed", "kube.changed", 9), markOf("Changed", "read.second", 15), markOf("Changed", "read.second", 20),
		markOf("Gone", "kube.gone", 12), markOf("Value.OldName", "kube.renamed", 18), markOf("Moved", "kube.moved", 21),
		markOf("WithMethods", "kube.methods", 24), markOf("Platform", "kube.platform", 27), markOf("Third", "kube.third", 30),
		{Name: "example.org/yaml.v3.Unmarshal", Ours: "crd.yaml", File: "internal/apiserver/crd/yaml.go", Line: 1},
	}
	var b strings.Builder
	from, to := fixtures(t, "old"), fixtures(t, "new")
	if err := Compare(&b, marks, from, to); err != nil {
		t.Fatal(err)
	}
	if err := CompareGates(&b, from, to); err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/compare.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the output differs from %s, which -update writes:\n%s", golden, unifiedDiff(string(want), b.String(), 1, 1))
	}
}

// TestCompareNeedsTheOldDeclaration checks that a mark which names nothing in the old
// version is an error: there is nothing to compare with.
func TestCompareNeedsTheOldDeclaration(t *testing.T) {
	err := Compare(&strings.Builder{}, []Mark{markOf("Value.NewName", "kube.new", 3)}, fixtures(t, "old"), fixtures(t, "new"))
	if err == nil || !strings.Contains(err.Error(), "internal/apiserver/kube/chain.go:3: not declared") {
		t.Errorf("error %v, want one with the place of the mark", err)
	}
}

func TestUnified(t *testing.T) {
	lines := func(words string) string { return strings.ReplaceAll(words, " ", "\n") }
	for _, c := range []struct{ name, from, to, want string }{
		{"equal", "a b c", "a b c", ""},
		{"empty", "", "", ""},
		{"added", "", "a", "@@ -10,0 +20,1 @@\n+a\n"},
		{"removed", "a", "", "@@ -10,1 +20,0 @@\n-a\n"},
		{"one line", "a b c d e f g h i", "a b c d X f g h i", "@@ -11,7 +21,7 @@\n b\n c\n d\n-e\n+X\n f\n g\n h\n"},
		{"at the ends", "a b c", "X a b c Y", "@@ -10,3 +20,5 @@\n+X\n a\n b\n c\n+Y\n"},
		{"near each other", "a 1 2 3 4 5 6 b", "A 1 2 3 4 5 6 B", "@@ -10,8 +20,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n"},
		{"far apart", "a 1 2 3 4 5 6 7 b", "A 1 2 3 4 5 6 7 B", "@@ -10,4 +20,4 @@\n-a\n+A\n 1\n 2\n 3\n@@ -15,4 +25,4 @@\n 5\n 6\n 7\n-b\n+B\n"},
		{"repeated lines", "a x b x", "x b x x", "@@ -10,4 +20,4 @@\n-a\n x\n b\n+x\n x\n"},
	} {
		if got := unifiedDiff(lines(c.from), lines(c.to), 10, 20); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}
