package replica

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/test/support/harness"
)

// TestLimits starts replicas with each of the limits.
func TestLimits(t *testing.T) {
	t.Parallel()
	upstream := startUpstream(t)
	t.Run("reads only", func(t *testing.T) { testReadsOnly(t, upstream) })
	t.Run("budgets", func(t *testing.T) { testBudgets(t, upstream) })
	t.Run("fairness", func(t *testing.T) { testFairness(t, upstream) })
}

// testReadsOnly writes to a replica that answers reads only, asks about rights, and reads.
func testReadsOnly(t *testing.T, upstream *harness.Server) {
	replica := harness.StartReplica(t, upstream, upstream.EtcdServers(), "--reads-only")
	client, ctx := clientset(t, replica.Config()), t.Context()
	_, err := client.CoreV1().ConfigMaps("default").Create(ctx, configMap("one"), metav1.CreateOptions{})
	if !apierrors.IsMethodNotSupported(err) || !strings.Contains(err.Error(), upstream.URL) {
		t.Errorf("create: %v, want 405 with %s", err, upstream.URL)
	}
	if _, err := clientset(t, upstream.Config()).CoreV1().ConfigMaps("default").Get(ctx, "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the object is there: %v", err)
	}
	must(client.AuthenticationV1().SelfSubjectReviews().Create(ctx, review(), metav1.CreateOptions{}))(t)
	must(client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{}))(t)
}

// testBudgets lets a user read until a budget is used up. Administrators read on.
func testBudgets(t *testing.T, upstream *harness.Server) {
	admin := clientset(t, upstream.Config())
	reader := account(t, admin, "spender", nil, rbacv1.PolicyRule{APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"clusterroles"}, Verbs: []string{"list"}})
	replica := harness.StartReplica(t, upstream, upstream.EtcdServers(), "--budget-bytes-per-minute=200Ki")
	client := must(rest.HTTPClientFor(withToken(replica, t, reader)))(t)
	var refused *http.Response
	eventually(t, "the end of the budget", func() error {
		resp, err := client.Get(replica.URL + "/apis/rbac.authorization.k8s.io/v1/clusterroles?resourceVersion=0")
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusTooManyRequests {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			return notYet("status %d", resp.StatusCode)
		}
		refused = resp
		return nil
	})
	defer refused.Body.Close()
	var answer metav1.Status
	if err := json.NewDecoder(refused.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if refused.Header.Get("Retry-After") == "" || answer.Reason != metav1.StatusReasonTooManyRequests || !strings.Contains(answer.Message, "budget of bytes") {
		t.Errorf("Retry-After %q, %+v", refused.Header.Get("Retry-After"), answer)
	}
	for range 5 {
		must(clientset(t, replica.Config()).RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{ResourceVersion: "0"}))(t)
	}
	if counter(t, replica, `millrace_replica_refused_total{reason="bytes"}`) == 0 {
		t.Error("nothing is counted as refused")
	}
}

// testFairness has a replica follow the upstream's FlowSchemas: answers name the one that
// the upstream chooses, also a new one.
func testFairness(t *testing.T, upstream *harness.Server) {
	admin, ctx := clientset(t, upstream.Config()), t.Context()
	reader := account(t, admin, "reader", nil, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}})
	replica := harness.StartReplica(t, upstream, upstream.EtcdServers(), "--enable-priority-and-fairness")
	must(admin.FlowcontrolV1().FlowSchemas().Create(ctx, &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "workload-low"}, MatchingPrecedence: 100,
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects:      []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindServiceAccount, ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: "default", Name: "reader"}}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, ClusterScope: true, Namespaces: []string{"*"}}},
			}},
		},
	}, metav1.CreateOptions{}))(t)
	schemaOf := func(s *harness.Server) (string, error) {
		client, err := rest.HTTPClientFor(withToken(s, t, reader))
		if err != nil {
			return "", err
		}
		resp, err := client.Get(s.URL + "/api/v1/configmaps?resourceVersion=0")
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID), nil
	}
	made := must(admin.FlowcontrolV1().FlowSchemas().Get(ctx, "reader", metav1.GetOptions{}))(t)
	for _, s := range []*harness.Server{upstream, replica} {
		eventually(t, "the new FlowSchema", func() error {
			uid, err := schemaOf(s)
			if err == nil && uid != string(made.UID) {
				return notYet("FlowSchema %q at %s", uid, s.URL)
			}
			return err
		})
	}
	resp := must(replica.HTTPClient().Get(replica.URL + "/debug/api_priority_and_fairness/dump_priority_levels"))(t)
	defer resp.Body.Close()
	if levels := string(must(io.ReadAll(resp.Body))(t)); !strings.Contains(levels, "workload-low") {
		t.Errorf("the replica's priority levels: %s", levels)
	}
}

// auditEvents reads the audit log of a server.
func auditEvents(t *testing.T, file string) (events []auditv1.Event) {
	t.Helper()
	for line := range bytes.Lines(must(os.ReadFile(file))(t)) {
		var event auditv1.Event
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatal(err)
		}
		events = append(events, event)
	}
	return events
}

// auditedAs are the fields of an event in which a replica's is the upstream's: as JSON.
func auditedAs(t *testing.T, event *auditv1.Event) string {
	t.Helper()
	same := *event
	same.AuditID, same.RequestReceivedTimestamp, same.StageTimestamp = "", metav1.MicroTime{}, metav1.MicroTime{}
	for name := range same.Annotations {
		if strings.HasPrefix(name, "apiserver.latency.k8s.io/") {
			delete(same.Annotations, name) // of slow answers
		}
	}
	return string(must(json.Marshal(same))(t))
}

// TestAuditIsTheUpstreams sends the same requests to a replica and to its upstream, which
// have the same audit policy. What the replica answers makes the same events, and what it
// passes on makes events at both with one ID.
func TestAuditIsTheUpstreams(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	const rules = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata", "users": ["system:serviceaccount:default:reader"]}, {"level": "None"}]}`
	if err := os.WriteFile(policy, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	logs := [2]string{filepath.Join(dir, "upstream.log"), filepath.Join(dir, "replica.log")}
	flags := func(i int) []string {
		return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + logs[i]}
	}
	upstream := harness.Start(t, harness.ShortTempDir(t), append(flags(0), "--read-path=kubernetes")...)
	reader := account(t, clientset(t, upstream.Config()), "reader", nil, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}})
	replica := harness.StartReplica(t, upstream, append(flags(1), upstream.EtcdServers(), byRBAC)...)
	eventually(t, "the right of the reader", func() error {
		before := counter(t, replica, decidedByRBAC)
		for _, s := range []*harness.Server{upstream, replica} {
			got, err := fetch(t.Context(), withToken(s, t, reader), "/api/v1/configmaps?resourceVersion=0")
			if err != nil || got.status != http.StatusOK {
				return notYet("%d, %v", got.status, err)
			}
		}
		if counter(t, replica, decidedByRBAC) == before {
			return notYet("asks the upstream")
		}
		return nil
	})
	answered := []string{
		"/api/v1/configmaps?resourceVersion=0&limit=7", "/api/v1/namespaces/default/configmaps/none",
		"/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0&timeoutSeconds=1", "/api/v1/configmaps?labelSelector=a%3Db",
	}
	const passedOn = "/api/v1/namespaces/default/secrets/none"
	for i, s := range []*harness.Server{upstream, replica} {
		client := must(rest.HTTPClientFor(withToken(s, t, reader)))(t)
		for n, path := range append(answered, passedOn) {
			req := must(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil))(t)
			id := fmt.Sprintf("request-%d-%d", i, n)
			req.Header.Set("Audit-ID", id)
			req.Header.Set("User-Agent", "test")
			resp := must(client.Do(req))(t)
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if got := resp.Header.Values("Audit-Id"); len(got) != 1 || got[0] != id {
				t.Errorf("%s answers with the ID %q, want %q", path, got, id)
			}
		}
	}
	byID := func(file, id string) (events []string) {
		for _, event := range auditEvents(t, file) {
			if string(event.AuditID) == id {
				events = append(events, auditedAs(t, &event))
			}
		}
		return events
	}
	for n, path := range answered {
		var theirs, ours []string
		eventually(t, "equal events of "+path, func() error {
			theirs, ours = byID(logs[0], fmt.Sprintf("request-0-%d", n)), byID(logs[1], fmt.Sprintf("request-1-%d", n))
			if len(ours) == 0 || strings.Join(ours, "\n") != strings.Join(theirs, "\n") {
				return notYet("replica:\n%s\nupstream:\n%s", strings.Join(ours, "\n"), strings.Join(theirs, "\n"))
			}
			return nil
		})
		if others := byID(logs[0], fmt.Sprintf("request-1-%d", n)); len(others) > 0 {
			t.Errorf("%s came to the upstream: %s", path, others)
		}
	}
	id := fmt.Sprintf("request-1-%d", len(answered))
	eventually(t, "events at both of "+passedOn, func() error {
		theirs, ours := byID(logs[0], id), byID(logs[1], id)
		if len(theirs) == 0 || len(ours) != len(theirs) {
			return notYet("replica %q, upstream %q", ours, theirs)
		}
		if !strings.Contains(theirs[len(theirs)-1], `"authorization.k8s.io/decision":"forbid"`) || strings.Contains(ours[len(ours)-1], "authorization.k8s.io/decision") {
			t.Errorf("decisions: replica %q, upstream %q", ours, theirs)
		}
		return nil
	})
}

// TestStaleReads kills the upstream of a replica with bounded staleness: reads go on for
// that time, and are marked.
func TestStaleReads(t *testing.T) {
	t.Parallel()
	const bound = 4 * time.Second
	upstream := startUpstream(t)
	reader := account(t, clientset(t, upstream.Config()), "reader", nil, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list"}})
	replica := harness.StartReplica(t, upstream, "--follow=configmaps", "--bounded-staleness="+bound.String(),
		"--authentication-token-webhook-cache-ttl=1m", "--authorization-webhook-cache-authorized-ttl=1m")
	client := must(rest.HTTPClientFor(withToken(replica, t, reader)))(t)
	get := func() (code int, stale string) {
		resp := must(client.Get(replica.URL + "/api/v1/configmaps"))(t)
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, resp.Header.Get("X-Millrace-Stale")
	}
	admin := clientset(t, upstream.Config())
	eventually(t, "a proven read", func() error {
		// A change lets the watch of the replica pass the revision of the check.
		name := fmt.Sprint("change-", time.Now().UnixNano())
		must(admin.CoreV1().ConfigMaps("default").Create(t.Context(), configMap(name), metav1.CreateOptions{}))(t)
		if code, stale := get(); code != http.StatusOK || stale != "" || counter(t, replica, `millrace_read_requests_total{verb="LIST"}`) == 0 {
			return notYet("status %d, stale %q", code, stale)
		}
		return nil
	})
	upstream.Kill()
	began := time.Now()
	if code, stale := get(); code != http.StatusOK || stale == "" {
		t.Errorf("without the upstream: status %d, stale %q", code, stale)
	}
	eventually(t, "the end of stale answers", func() error {
		if code, stale := get(); code != http.StatusServiceUnavailable || stale != "" {
			return notYet("status %d, stale %q", code, stale)
		}
		return nil
	})
	if took := time.Since(began); took > bound+delay {
		t.Errorf("stale answers ended after %v", took)
	}
}

// TestExcludedInBothGroups excludes events of the core group. Those of events.k8s.io are the same
// objects, and are passed on too.
func TestExcludedInBothGroups(t *testing.T) {
	t.Parallel()
	replica := harness.StartReplica(t, startUpstream(t), "--exclude=events")
	passedOn := func() int { return counter(t, replica, `millrace_replica_passed_on_total{reason="excluded"}`) }
	for _, path := range []string{"/api/v1/events", "/apis/events.k8s.io/v1/events"} {
		before := passedOn()
		if a := must(fetch(t.Context(), replica.Config(), path+"?resourceVersion=0"))(t); a.status != http.StatusOK || passedOn() != before+1 {
			t.Errorf("%s: status %d, %v requests were passed on as excluded, and then %v", path, a.status, before, passedOn())
		}
	}
}
