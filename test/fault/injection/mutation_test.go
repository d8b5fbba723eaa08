//go:build mutations

package injection

import (
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/mutation"
	"github.com/millrace/millrace/internal/tool/verify"
	"github.com/millrace/millrace/test/support/harness"
)

// TestMutations breaks one of two servers in each way that shows only under a fault, and
// checks that the clients find it. It is not parallel: a mutation is chosen by the
// environment.
func TestMutations(t *testing.T) {
	for _, row := range mutation.Table() {
		if row.Fault == "" {
			continue // test/whole/mutations has it
		}
		t.Run(row.Name, func(t *testing.T) {
			t.Setenv(mutation.Variable, row.Name)
			c := startCluster(t, shape{members: 3, servers: []string{"", ""}})
			defer c.end()
			c.servers[0].signal(mutation.Arm)
			all := slices.DeleteFunc(kinds(), func(k *kind) bool { return k.name != row.Fault })
			cast := c.cast()
			cast.servers = cast.servers[:1]
			seed := harness.Seed(t)
			report, err := c.observe(t, seed, schedule(seed, cast, all, longDuration), longDuration)
			if report == nil {
				t.Fatal(err)
			}
			if found := report.ViolationsOf(verify.Promise(row.Promise), row.Guarantee); len(found) > 0 {
				t.Logf("%s: %d violations in %.0f s, as in %q: %s", row.Name, report.Violations(), report.Seconds, row.Promise, found[0].Summary)
				return
			}
			_ = report.Write(t.Output())
			t.Errorf("not found as one of %q: %s", row.Promise, row.Breaks)
		})
	}
}
