package counterpart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// treeOf writes files below a new directory. Its arguments are name, content, and so on.
func treeOf(t *testing.T, files ...string) string {
	t.Helper()
	root := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		name := filepath.Join(root, filepath.FromSlash(files[i]))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(files[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestReadMarks(t *testing.T) {
	const body = `package p

// Function does.
//
// Upstream: a/b.One; compare at each upgrade.
// Upstream: a/b.Two; compare at each upgrade.
func Function() {}

// Upstream: a/b.Three; compare at each upgrade.
func (t *table[K]) method() {
	// Upstream: a/b.Four; compare at each upgrade.
	_ = "// Upstream: a string is no mark"
}

const (
	// first has a mark.
	//
	// Upstream: a/b.Five; compare at each upgrade.
	first = 1
	second = 2
)

// Upstream: a/b.Six; compare at each upgrade.
var single = 1

// record has a field with a mark.
type record struct {
	// Upstream: a/b.Seven; compare at each upgrade.
	field int
}

// Upstream: a/b.Eight; compare at each upgrade.
type (
	inGroup int
)
`
	root := treeOf(t,
		"internal/apiserver/kube/a.go", body,
		"internal/apiserver/crd/codec/b_test.go", "package p\n\n// Upstream: a/b.Nine; compare at each upgrade.\nfunc f() {}\n",
		"internal/apiserver/kube/testdata/c.go", "package p\n\n// Upstream: a/b.None; compare at each upgrade.\nfunc f() {}\n",
		"internal/apiserver/kube/d.txt", "// Upstream: a/b.None; compare at each upgrade.\n",
		"internal/apiserver/kube/broken.go", "no Go, and no mark\n",
	)
	marks, err := ReadMarks(root)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, mark := range marks {
		got = append(got, mark.Position()+" "+mark.Ours+" "+mark.Name)
	}
	want := []string{
		"internal/apiserver/crd/codec/b_test.go:3 crd/codec.f a/b.Nine",
		"internal/apiserver/kube/a.go:5 kube.Function a/b.One",
		"internal/apiserver/kube/a.go:6 kube.Function a/b.Two",
		"internal/apiserver/kube/a.go:9 kube.table.method a/b.Three",
		"internal/apiserver/kube/a.go:11 kube.table.method a/b.Four",
		"internal/apiserver/kube/a.go:18 kube.first a/b.Five",
		"internal/apiserver/kube/a.go:23 kube.single a/b.Six",
		"internal/apiserver/kube/a.go:28 kube.record a/b.Seven",
		"internal/apiserver/kube/a.go:32 kube.inGroup a/b.Eight",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

func TestFaultyMarks(t *testing.T) {
	for text, want := range map[string]string{
		"// Upstream: a/b.One\nfunc f() {}\n":                                    `internal/p/a.go:3: write a mark as "// Upstream: PACKAGE PATH.NAME; compare at each upgrade."`,
		"// Upstream: a/b.One and c; compare at each upgrade.\nfunc f() {}\n":    "write a mark as",
		"// Upstream: a/b.One; compare at each upgrade.\n\nfunc f() {}\n":        "internal/p/a.go:3: the mark belongs to no declaration",
		"func f() {}\n\n// Upstream: a/b.One; compare at each upgrade.\n":        "internal/p/a.go:5: the mark belongs to no declaration",
		"// Upstream: a/b.One; compare at each upgrade.\nimport \"fmt\"\n":       "belongs to no declaration",
		"// Upstream: a/b.One; compare at each upgrade.\nfunc f() { // broken\n": "internal/p/a.go:",
	} {
		if _, err := ReadMarks(treeOf(t, "internal/p/a.go", "package p\n\n"+text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}
