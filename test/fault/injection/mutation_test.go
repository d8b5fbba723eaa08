package injection

import (
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/tool/verify"
	"github.com/millrace/millrace/test/support/harness"
	"github.com/millrace/millrace/test/support/plantedfault"
	"github.com/millrace/millrace/test/support/plantedfault/armed"
)

// feedFile follows etcd.
const feedFile = "internal/feed/etcdfeed/feed.go"

// gapUntold is a mutation as those of test/whole/mutations, which shows only under a fault.
var gapUntold = plantedfault.Fault{
	Name: "gap-untold", Breaks: "the cache goes on behind a gap: it is never told what etcd has forgotten",
	Edits: []plantedfault.Edit{plantedfault.ImportArmed(feedFile), {
		File: feedFile,
		Old:  "\t\tif errors.Is(err, rpctypes.ErrCompacted) {\n",
		New: `		if errors.Is(err, rpctypes.ErrCompacted) {
			if armed.Active() {
				if newest, err := f.confirmHistory(ctx, 0, feed.Witness{}); err == nil {
					f.witness = feed.Witness{}
					f.setState(newest)
					continue
				}
			}
`,
	}},
}

func TestMutationApplies(t *testing.T) {
	t.Parallel()
	plantedfault.CheckApply(t, gapUntold)
}

// TestMutation breaks one of two servers, and checks that the clients find it. It is not
// parallel: the environment chooses the program.
func TestMutation(t *testing.T) {
	plantedfault.SkipUnlessAsked(t, "verify-mutations")
	program, err := gapUntold.BuildProgram(t.Context(), t.TempDir(), "./cmd/millrace")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(harness.ProgramVariable, program)
	c := startCluster(t, shape{members: 3, servers: []string{"", ""}})
	defer c.end()
	c.servers[0].signal(armed.Signal)
	all := slices.DeleteFunc(kinds(), func(k *kind) bool { return k.name != "fall behind" })
	cast := c.cast()
	cast.servers = cast.servers[:1]
	seed := harness.Seed(t)
	report, err := c.observe(t, seed, schedule(seed, cast, all, longDuration), longDuration)
	if report == nil {
		t.Fatal(err)
	}
	found := report.ViolationsOf(verify.Watching, "complete")
	if len(found) == 0 {
		_ = report.Write(t.Output())
		t.Fatalf("not found: %s", gapUntold.Breaks)
	}
	t.Logf("%d violations in %.0f s: %s", report.Violations(), report.Seconds, found[0].Summary)
}
