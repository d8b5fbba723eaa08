package replica

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/account/serverreport"
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
	for i, s := range report.Servers {
		if isReplica := i > 0; isReplica != (len(s.OwnReads) == 2) {
			t.Errorf("server %d has reads of its own %v", i, s.OwnReads)
		}
	}
}

// TestVerifyOfPassedOnReads: a replica whose user may follow neither resource of a run, nor one that
// --follow names, passes all reads on. The run does not succeed, and the replica's report says what
// is refused.
func TestVerifyOfPassedOnReads(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t)
	admin := clientset(t, upstream.Config())
	own := account(t, admin, "replica", []string{"system:auth-delegator"}, readRules()...)
	verifier := account(t, admin, "verifier", []string{"cluster-admin"})
	replica := harness.StartReplica(t, upstream, "--kubeconfig="+kubeconfigFor(t, upstream, own), "--follow=configmaps,secrets")
	report, err := verify.Run(t.Context(), verify.Config{
		Servers: []*rest.Config{withToken(replica, t, verifier)}, Duration: 2 * time.Second, Writers: 2, Readers: 4, Watchers: 2, Rate: 60, Keys: 12, Seed: 1,
	})
	if err == nil || report == nil || !strings.Contains(err.Error(), "answered no read itself") {
		t.Errorf("a report: %t, error: %v", report != nil, err)
	}
	made := serverreport.ReplicaReport{}
	answer := must(fetch(t.Context(), withToken(replica, t, verifier), "/debug/millrace/replica"))(t)
	if err := json.Unmarshal([]byte(answer.body), &made); err != nil {
		t.Fatal(err)
	}
	refused := map[string]bool{}
	for _, f := range made.Followed {
		if f.Refused == "refused" && f.Error != "" {
			refused[f.Name] = f.Named
		}
	}
	if named, known := refused["secrets"]; !known || !named {
		t.Errorf("refused are %v", refused)
	}
	var causes []serverreport.Cause
	for _, c := range made.Causes {
		causes = append(causes, c.Cause)
	}
	if want := []serverreport.Cause{serverreport.CauseNotFollowed, serverreport.CausePassedOnReads}; !slices.Equal(causes, want) {
		t.Errorf("wrong are %v, want %v", causes, want)
	}
	if named, known := refused["leases.coordination.k8s.io"]; !known || named {
		t.Errorf("refused are %v", refused)
	}
}
