package hollow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/test/support/harness"
)

// provisionReport is the part of the report of `millrace-lab bench provision` that tests look at.
type provisionReport struct {
	Results []struct {
		Path, Error string
		Seconds     float64
		Steps       map[string]struct {
			Count    int
			P50, P95 float64
		}
		Costs []struct {
			Part       string
			CPUSeconds float64
		}
		Requests, Deliveries, Relists int
	}
}

// provision runs the benchmark with few nodes and pods. The report is not decoded if none was
// printed.
func provision(t *testing.T, args ...string) (report provisionReport, output string, code int) {
	t.Helper()
	output, code = harness.Run(t, append([]string{
		"bench", "provision", "--nodes=4", "--node-rate=100", "--pods=8", "--watchers=3", "--settle=100ms", "-o=json",
	}, args...)...)
	_, text, _ := strings.Cut(output, "\n{")
	if err := json.NewDecoder(strings.NewReader("{" + text)).Decode(&report); err != nil && code == 0 {
		t.Fatalf("%v in\n%s", err, output)
	}
	return report, output, code
}

// check checks the only result of a run.
func (r *provisionReport) check(t *testing.T, output string, deliveries int) {
	t.Helper()
	if len(r.Results) != 1 || r.Results[0].Error != "" {
		t.Fatal(output)
	}
	res := &r.Results[0]
	for _, step := range []string{"bind", "kubelet", "run", "provision"} {
		if q := res.Steps[step]; q.Count != 8 || q.P95 < q.P50 || q.P95 > 1000*res.Seconds {
			t.Errorf("step %s: %+v", step, q)
		}
	}
	// On a busy machine a watcher may have to list anew, after an answer that counts as an
	// error. Its events then come with the list.
	if res.Relists == 0 && res.Deliveries < deliveries || res.Steps["watch"].Count == 0 || res.Requests == 0 {
		t.Errorf("got %+v", res)
	}
}

// TestProvision has a server, Kubernetes' own scheduler and its controller manager. The
// objectives are such that one is met and one is not.
func TestProvision(t *testing.T) {
	t.Parallel()
	report, output, code := provision(t, "--paths=millrace", "--pods-per-deployment=3", "--slo=watch p50<1h,provision p50<1ns")
	if code != 1 || !strings.Contains(output, "objectives were missed: millrace serve: provision p50<1ns\n") {
		t.Fatalf("exit code %d:\n%s", code, output)
	}
	// Each pod is written when it is created, when it is bound and twice by its kubelet.
	report.check(t, output, 3*8*4)
	if costs := report.Results[0].Costs; len(costs) != 4 || costs[1].Part != "server" || costs[1].CPUSeconds <= 0 {
		t.Errorf("got %+v", costs)
	}
	if got, want := report.Results[0].Steps["watch"].Count, report.Results[0].Deliveries; got != want {
		t.Errorf("the times of %d of %d writes are known", got, want)
	}
}

// testProvision measures a cluster that exists, whose scheduler is this test.
func testProvision(t *testing.T, server *harness.Server, admin kubernetes.Interface) {
	existing := []string{"--kubeconfig=" + server.Kubeconfig(), "--pods-of=pods"}
	killed := harness.Command(t, append([]string{"bench", "provision", "--nodes=4", "--node-rate=100", "--pods=8", "--settle=100ms"}, existing...)...)
	eventually(t, "a pod that nobody binds", func() error { return existingPods(t.Context(), admin, 1) })
	killed.Kill()
	if output, code := harness.Run(t, "bench", "provision", existing[0], "--delete"); code != 0 {
		t.Fatal(output)
	}
	nothingLeft(t, admin)

	// Nobody binds pods; nothing is left of that run either.
	if output, code := harness.Run(t, append([]string{"bench", "provision", "--nodes=1", "--pods=1", "--ready-timeout=1s"}, existing...)...); code != 1 || !strings.HasSuffix(output, "does a scheduler run, and for Deployments a controller manager? --own-components starts both\n") {
		t.Errorf("exit code %d: %s", code, output)
	}
	nothingLeft(t, admin)
	if output, code := harness.Run(t, append([]string{"bench", "provision", "--nodes=1", "--pods=1", "--timeout=2s"}, existing...)...); code != 1 || !strings.Contains(output, "not done within --timeout=2s") {
		t.Errorf("exit code %d: %s", code, output)
	}
	nothingLeft(t, admin)

	ctx, stop := context.WithCancel(t.Context())
	var binding sync.WaitGroup
	binding.Go(func() { bindPods(ctx, t, admin) })
	report, output, code := provision(t, existing...)
	stop()
	binding.Wait()
	if code != 0 {
		t.Fatal(output)
	}
	report.check(t, output, 3*8*4)
	nothingLeft(t, admin)
	testPaper(t, server, admin)
}

// testPaper runs the paper that provisions pods, at a server without a scheduler: once without
// one, and once with that of the binary.
func testPaper(t *testing.T, server *harness.Server, admin kubernetes.Interface) {
	paper := []string{"papers", "b", "--only=provision", "--scale=0.008", "--duration=100ms", "-o=markdown", "--kubeconfig=" + server.Kubeconfig()}
	output, code := harness.Run(t, append(paper, "--ready-timeout=1s")...)
	if code != 1 || !strings.Contains(output, "step provision failed: the first pod does not run within") {
		t.Errorf("exit code %d: %s", code, output)
	}
	nothingLeft(t, admin)
	output, code = harness.Run(t, append(paper, "--own-components")...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, output)
	}
	for _, row := range []string{"| figure | published | this server |", "| created → running: p95 | 34.43 s, then 14.05 s |", "| CPU of the server | – |", "| most memory of the server | – |"} {
		if _, after, found := strings.Cut(output, row); !found || strings.HasPrefix(after, " – |") {
			t.Errorf("there is no figure behind %q:\n%s", row, output)
		}
	}
	nothingLeft(t, admin)
}

func existingPods(ctx context.Context, admin kubernetes.Interface, want int) error {
	pods, err := admin.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err == nil && len(pods.Items) != want {
		err = fmt.Errorf("%d pods exist", len(pods.Items))
	}
	return err
}

// bindPods binds each new pod to a node until ctx ends.
func bindPods(ctx context.Context, t *testing.T, admin kubernetes.Interface) {
	watch, err := admin.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
	if err != nil {
		t.Error(err)
		return
	}
	defer watch.Stop()
	for next := 0; ; {
		select {
		case <-ctx.Done():
			return
		case event, open := <-watch.ResultChan():
			pod, isPod := event.Object.(*corev1.Pod)
			if !open || !isPod {
				if !errors.Is(ctx.Err(), context.Canceled) {
					t.Errorf("the watch of pods has ended: %+v", event)
				}
				return
			}
			if event.Type != "ADDED" {
				continue
			}
			binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: fmt.Sprintf("provision-%05d", next%4)}}
			if err := admin.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
			next++
		}
	}
}
