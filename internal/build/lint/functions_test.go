package lint

import "testing"

func TestFunctionDocs(t *testing.T) {
	wantKeys(t, "function docs", tree(t,
		"a/a.go", `package a

// total is the sum.
func total() int { return 0 }

// names are
// all names.
func (*t) names() []string { return nil }

// size returns the size. It is in bytes.
func size() int { return 0 }

// sizeOf is size of another thing.
func sizeOf() int { return 0 }

// done is called at the end.
func done() {}

// issue returns an issue.
func issue() int { return 0 }

func bare() int { return 0 }
`,
		"a/a_test.go", "package a\n\n// sum is the sum.\nfunc sum() int { return 0 }\n",
		"b/b.go", "package b\n\n// sizeOf is size of another thing.\nfunc sizeOf() int { return 0 }\n",
	), "a/a.go:total", "a/a.go:t.names", "b/b.go:sizeOf")
}

func TestDocNames(t *testing.T) {
	wantKeys(t, "doc names", tree(t,
		"a.go", `package a

// reader reads.
type reader int

// Sizes are in bytes.
const (
	size = 1
	// high is the upper one.
	low = 2
)

// open opens.
func openLocked() {}

//go:noinline
func (reader) close() {}

// powers[i] is a power.
var powers []int

// newest is the newest.
type oldest int

// The bound of all.
const bound = 1
`,
		"a_test.go", "package a\n\n// sum sums.\nfunc total() {}\n",
	), "a.go:openLocked", "a.go:oldest", "a.go:bound")
}

func TestPrepositionNames(t *testing.T) {
	wantKeys(t, "preposition names", tree(t,
		"a.go", "package a\nfunc of() {}\nfunc (t) before() int { return 0 }\nfunc offset() {}\nfunc newestBefore() {}\nvar after = 1\n",
		"a_test.go", "package a\nfunc with() {}\n",
	), "a.go:of", "a.go:t.before")
}

func TestParticipleNames(t *testing.T) {
	wantKeys(t, "participle names", tree(t,
		"a.go", `package a
func sorted() []int { return nil }
func (t) Found() (n int, err error) { return }
func known() (a, b bool) { return }
func closed() bool { return false }
func started() (err error) { return nil }
func Done() <-chan struct{} { return nil }
func appended() {}
func sortedNames() []string { return nil }
func encoding() int { return 0 }
`,
		"a_test.go", "package a\nfunc made() int { return 0 }\n",
	), "a.go:sorted", "a.go:t.Found", "a.go:known")
}

func TestParameterNames(t *testing.T) {
	wantKeys(t, "parameter names", tree(t,
		"a.go", `package a
func value(spec spec) {}
func pointer(n int, plan *plan) {}
func (key key) receiver(k key) {}
func literal() { _ = func(turn turn) {} }
func other(key string, spec a.spec) {}
`,
		"a_test.go", "package a\nfunc value(spec spec) {}\n",
	), "a.go:value", "a.go:pointer", "a.go:literal")
}

func TestProgressNames(t *testing.T) {
	wantKeys(t, "progress names", tree(t,
		"field.go", "package a\ntype t struct { log *testbed.Progress }\n",
		"parameter.go", "package a\nfunc f(n int, p *testbed.Progress) {}\n",
		"variable_test.go", "package a\nvar log *testbed.Progress\n",
		"good.go", "package a\ntype t struct { progress, Progress *testbed.Progress; log *display.Progress; line testbed.Line }\n",
	), "field.go", "parameter.go", "variable_test.go")
}
