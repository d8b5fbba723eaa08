package replica

import (
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/tool/verify"
	"github.com/millrace/millrace/test/support/harness"
)

// TestVerified verifies a stock server together with replicas of each feed in front of it,
// and one in front of a replica: what one tells, the others are asked for.
func TestVerified(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t)
	const follow = "--follow=leases.coordination.k8s.io"
	// A replica behind a replica has a token: a certificate can be handed on only once.
	token := account(t, clientset(t, upstream.Config()), "verifier", []string{"cluster-admin"})
	replica := harness.StartReplica(t, upstream, follow)
	behind := harness.StartReplica(t, replica, follow, "--kubeconfig="+kubeconfigFor(t, replica, token))
	servers := []*rest.Config{withToken(upstream, t, token)}
	for _, s := range []*harness.Server{replica, behind, harness.StartReplica(t, upstream, upstream.EtcdServers())} {
		servers = append(servers, withToken(s, t, token))
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
