// Package replay records what clients ask a real server, sends the recorded log to it again,
// and compares what millrace-tools analyze says of both logs.
package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/tool/analyze"
	"github.com/millrace/millrace/test/support/harness"
)

const policy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}`

// waitTimeout bounds every wait.
const waitTimeout = time.Minute

func TestMain(m *testing.M) { harness.Main(m) }

// TestReplayOfRecordedLog expects the same counts by client and request, and the same order
// of clients by cost.
func TestReplayOfRecordedLog(t *testing.T) {
	dir := t.TempDir()
	log, policyFile := filepath.Join(dir, "audit.log"), filepath.Join(dir, "policy.json")
	write(t, policyFile, []byte(policy))
	s := harness.Start(t, filepath.Join(dir, "data"), "--audit-policy-file="+policyFile, "--audit-log-path="+log, "--disable-admission-plugins=ServiceAccount")
	fillPods(t, s)

	position := size(t, log)
	runClients(t, s)
	recorded := clientsOnly(t, behind(t, log, position))
	file := filepath.Join(dir, "recorded.log")
	write(t, file, recorded)

	position = size(t, log)
	if out, code := harness.Run(t, "replay", file, "--kubeconfig="+s.Kubeconfig(), "--impersonate"); code != 0 {
		t.Fatalf("replay ends with %d: %s", code, out)
	}
	again := filepath.Join(dir, "replayed.log")
	write(t, again, clientsOnly(t, behind(t, log, position)))

	want, got := analyzed(t, file), analyzed(t, again)
	for key, n := range want.counts {
		if got.counts[key] != n {
			t.Errorf("%s: %d requests, %d in the log", key, got.counts[key], n)
		}
	}
	if len(got.counts) != len(want.counts) || len(want.counts) < 8 {
		t.Errorf("%d kinds of requests, %d in the log", len(got.counts), len(want.counts))
	}
	if fmt.Sprint(got.clients) != fmt.Sprint(want.clients) {
		t.Errorf("clients by cost are %v, in the log %v", got.clients, want.clients)
	}
	replayWrites(t, s, dir)
}

// replayWrites sends a log of writes of every resource that replay writes: none is refused, and
// --delete leaves nothing.
func replayWrites(t *testing.T, s *harness.Server, dir string) {
	t.Helper()
	var log []byte
	began := time.Now().UTC()
	add := func(verb, uri string) {
		at := began.Add(time.Duration(len(log)) * 20 * time.Microsecond).Format("2006-01-02T15:04:05.000000Z")
		log = fmt.Appendf(log, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"%d","stage":"ResponseComplete","requestURI":%q,"verb":%q,"user":{"username":"u"},"userAgent":"writer","sourceIPs":["10.0.0.1"],"responseStatus":{"code":200},"requestReceivedTimestamp":%q,"stageTimestamp":%q}`+"\n", len(log), uri, verb, at, at)
	}
	resources := map[string][]string{
		"/api/v1": {"configmaps", "secrets", "pods", "services", "endpoints", "events"}, "/apis/coordination.k8s.io/v1": {"leases"}, "/apis/discovery.k8s.io/v1": {"endpointslices"},
		"/apis/apps/v1": {"deployments", "replicasets"}, "/apis/events.k8s.io/v1": {"events"},
	}
	for api, all := range resources {
		for _, resource := range all {
			path := api + "/namespaces/shop/" + resource
			name := "web"
			if api == "/apis/events.k8s.io/v1" {
				name = "web-2" // the same objects as those of /api/v1
			}
			add("create", path)
			add("patch", path+"/"+name)
			add("update", path+"/"+name)
			add("delete", path+"/"+name)
		}
	}
	file := filepath.Join(dir, "writes.log")
	write(t, file, log)
	out, code := harness.Run(t, "replay", file, "--kubeconfig="+s.Kubeconfig(), "--writes=own-namespaces", "-o=json")
	var report struct {
		Servers []struct {
			Clients []struct {
				Requests, Refused, Unanswered int
			}
			Shapes []struct {
				Verb, Resource string
				Refused        int
			}
		}
	}
	start := max(0, bytes.IndexByte([]byte(out), '{'))
	if err := json.Unmarshal([]byte(out)[start:], &report); err != nil || code != 0 {
		t.Fatalf("code %d, %v: %s", code, err, out)
	}
	if c := report.Servers[0].Clients[0]; c.Requests != 44 || c.Refused+c.Unanswered != 0 {
		t.Errorf("%+v", report.Servers[0])
	}
	if out, code := harness.Run(t, "replay", "--delete", "--kubeconfig="+s.Kubeconfig()); code != 0 {
		t.Errorf("delete: %s", out)
	}
	namespaces, err := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{LabelSelector: "millrace.io/replay"})
	check(t, err)
	if len(namespaces.Items) != 0 {
		t.Errorf("left %v", namespaces.Items)
	}
}

// fillPods makes what the clients read.
func fillPods(t *testing.T, s *harness.Server) {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(s.Config())
	for i := range 60 {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i), Labels: map[string]string{"app": fmt.Sprintf("app-%d", i%5)}},
			Spec:       corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i%3), Containers: []corev1.Container{{Name: "c", Image: "image"}}},
		}
		if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// testPrograms begins the user agents of all clients of the test.
const testPrograms = "replaytest-"

// as is a client of a user with a program.
func as(s *harness.Server, user, agent string) *rest.Config {
	config := s.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	config.UserAgent, config.QPS = testPrograms+agent+"/v1", -1
	return config
}

// runClients runs an informer, one that takes pages, one that polls, and one that reads
// single objects.
func runClients(t *testing.T, s *harness.Server) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	informer := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(as(s, "informer", "informer")), 0)
	informer.Core().V1().Pods().Informer()
	informer.Core().V1().Services().Informer()
	informer.Start(ctx.Done())
	informer.WaitForCacheSync(ctx.Done())

	pods := kubernetes.NewForConfigOrDie(as(s, "pages", "pages")).CoreV1().Pods("default")
	for token, first := "", true; first || token != ""; first = false {
		list, err := pods.List(ctx, metav1.ListOptions{Limit: 7, Continue: token})
		check(t, err)
		token = list.Continue
	}
	for i, options := range []metav1.ListOptions{{LabelSelector: "app=app-1"}, {FieldSelector: "spec.nodeName=node-1"}, {ResourceVersion: "0"}} {
		poller := kubernetes.NewForConfigOrDie(as(s, "poller", fmt.Sprintf("poller-%d", i)))
		for range 20 {
			_, err := poller.CoreV1().Pods("").List(ctx, options)
			check(t, err)
		}
	}
	single := kubernetes.NewForConfigOrDie(as(s, "single", "single"))
	for i := range 10 {
		_, err := single.CoreV1().Pods("default").Get(ctx, fmt.Sprintf("pod-%d", i), metav1.GetOptions{})
		check(t, err)
	}
	_, err := single.Discovery().ServerVersion()
	check(t, err)
	stop()
	informer.Shutdown()
}

// clientsOnly returns the lines of the test's clients.
func clientsOnly(t *testing.T, log []byte) (lines []byte) {
	t.Helper()
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte(`"userAgent":"`+testPrograms)) {
			lines = append(lines, line...)
		}
	}
	return lines
}

// behind returns what a log has behind a position, once the ends of all watches are in it.
func behind(t *testing.T, log string, position int) (text []byte) {
	t.Helper()
	check(t, harness.Until(waitTimeout, func() error {
		all, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		text = all[position:]
		open := map[string]bool{}
		for line := range bytes.Lines(clientsOnly(t, text)) {
			var e struct{ Stage, Verb, AuditID string }
			if err := json.Unmarshal(line, &e); err != nil {
				return err
			}
			if e.Verb == "watch" {
				open[e.AuditID] = e.Stage != "ResponseComplete"
			}
		}
		for id := range open {
			if open[id] {
				return fmt.Errorf("watch %s has no end in the log", id)
			}
		}
		return nil
	}))
	return text
}

// analysis is what millrace-tools analyze says of a log.
type analysis struct {
	counts  map[string]uint64
	clients []string
}

func analyzed(t *testing.T, file string) analysis {
	t.Helper()
	var out bytes.Buffer
	cmd := analyze.NewCommand("test")
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SetArgs([]string{file, "-o=json"})
	check(t, cmd.ExecuteContext(t.Context()))
	var report analyze.Report
	check(t, json.Unmarshal(out.Bytes(), &report))
	a := analysis{counts: map[string]uint64{}}
	for i := range report.Clients {
		a.clients = append(a.clients, report.Clients[i].UserAgent)
	}
	for i := range report.Shapes {
		s := &report.Shapes[i]
		a.counts[fmt.Sprint(s.Client, s.Shape)] = s.Requests
	}
	return a
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	check(t, os.WriteFile(file, text, 0o600))
}

func size(t *testing.T, file string) int {
	t.Helper()
	info, err := os.Stat(file)
	check(t, err)
	return int(info.Size())
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
