// Package planted plants faults that the replica once had, one at a time, and checks that a test
// finds each of them, and that the same test finds nothing where no fault is planted. Those that
// clients of a changing upstream see within minutes are found by package living. The others have
// tests of their own.
//
// CI checks that each fault still applies to the sources. `make living-planted` does the rest.
package planted

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/test/support/plantedfault"
)

// row is a fault, and the test that has to find it.
type row struct {
	plantedfault.Fault
	finder
	// found matches what the test says of it.
	found string
}

// finder is a run of a test.
type finder struct {
	// pkg is the path of the test's package below the root, and test matches its name.
	pkg, test string
	// environment has variables, separated by spaces.
	environment string
}

// rows are all faults.
func rows() []row { return append(append([]row{}, seen...), unseen...) }

// runTimeout bounds a run of a finder.
const runTimeout = "10m"

// TestFaultsApply checks that each fault can be planted.
func TestFaultsApply(t *testing.T) {
	t.Parallel()
	var faults []plantedfault.Fault
	for _, r := range rows() {
		faults = append(faults, r.Fault)
	}
	plantedfault.CheckApply(t, faults...)
}

// TestPlanted plants each fault. It is not parallel: each run needs the machine.
func TestPlanted(t *testing.T) {
	plantedfault.SkipUnlessAsked(t, "living-planted")
	whole := map[finder]bool{}
	for _, r := range rows() {
		t.Run(r.Name, func(t *testing.T) {
			if !whole[r.finder] {
				if output, err := r.run(t, &plantedfault.Fault{}); err != nil {
					t.Fatalf("without a fault %s fails: %v\n%s", r.test, err, output)
				}
				whole[r.finder] = true
			}
			began := time.Now()
			output, err := r.run(t, &r.Fault)
			took := time.Since(began).Round(time.Second)
			says := regexp.MustCompile(".*(?:" + r.found + ").*").FindString(output)
			if _, failed := errors.AsType[*exec.ExitError](err); !failed || says == "" {
				t.Fatalf("%s has not found %q in %v: %v\n%s", r.test, r.Breaks, took, err, output)
			}
			t.Logf("%s has found it in %v: %.300s", r.test, took, strings.TrimSpace(says))
		})
	}
}

// run runs the finder's test with a fault, and returns its output.
func (f *finder) run(t *testing.T, planted *plantedfault.Fault) (output string, err error) {
	t.Helper()
	binary, err := planted.BuildTest(t.Context(), t.TempDir(), "./"+f.pkg)
	if err != nil {
		t.Fatal(err)
	}
	root, err := plantedfault.Root()
	if err != nil {
		t.Fatal(err)
	}
	test := exec.CommandContext(t.Context(), binary, "-test.v", "-test.run="+f.test, "-test.timeout="+runTimeout)
	test.Dir = filepath.Join(root, f.pkg)
	test.Env = append(os.Environ(), strings.Fields(f.environment)...)
	said, err := test.CombinedOutput()
	if t.Context().Err() != nil {
		t.Fatal(context.Cause(t.Context()))
	}
	if err != nil {
		err = fmt.Errorf("run %s: %w", f.test, err)
	}
	return string(said), err
}
