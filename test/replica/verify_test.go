package replica

import (
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/verify"
	"github.com/millrace/millrace/test/harness"
)

// TestVerified verifies a stock server together with replicas of each feed in front of it:
// what one tells, the others are asked for.
func TestVerified(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t)
	servers := []*rest.Config{upstream.Config()}
	for _, flags := range [][]string{{upstream.EtcdServers()}, {"--follow=leases.coordination.k8s.io"}} {
		servers = append(servers, harness.StartReplica(t, upstream, flags...).Config())
	}
	duration := 5 * time.Second
	if wantsRobustness() {
		duration = 2 * time.Minute
	}
	report, err := verify.Run(t.Context(), verify.Config{
		Servers: servers, Duration: duration, Writers: 4, Readers: 4, Watchers: 12, Rate: 60, Keys: 12, Seed: uint64(time.Now().UnixNano()),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d states seen, %+v, seed %d", report.Coverage.Seen, report.Coverage.Reachable, report.Counts, report.Seed)
	if report.Violations() > 0 {
		_ = report.Write(t.Output())
		t.Errorf("%d violations", report.Violations())
	}
}
