package plantedfault

import (
	"os"
	"testing"
)

// variable is the environment variable that enables the tests that plant faults.
const variable = "MILLRACE_PLANTED"

// SkipUnlessAsked skips a test that plants faults, unless variable is set. target is the make
// target that sets it.
func SkipUnlessAsked(tb testing.TB, target string) {
	tb.Helper()
	if os.Getenv(variable) == "" {
		tb.Skipf("builds a program for each fault: %s=1 or make %s runs it", variable, target)
	}
}

// CheckApply checks that each fault can be planted, and has a name of its own.
func CheckApply(tb testing.TB, faults ...Fault) {
	tb.Helper()
	root, err := Root()
	if err != nil {
		tb.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range faults {
		if changed, err := f.Apply(root); err != nil || len(changed) == 0 {
			tb.Errorf("%s changes %d files: %v", f.Name, len(changed), err)
		}
		if f.Name == "" || f.Breaks == "" || names[f.Name] {
			tb.Errorf("%q has no name of its own, or does not say what it breaks", f.Name)
		}
		names[f.Name] = true
	}
}
