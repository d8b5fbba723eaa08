package hollow

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/test/support/harness"
)

const (
	nodes    = 20
	patience = 60 * time.Second
	policy   = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}`
)

// start starts a server that writes an audit log.
func start(t *testing.T) (server *harness.Server, admin kubernetes.Interface, auditLog string) {
	t.Helper()
	dir := t.TempDir()
	policyFile, auditLog := filepath.Join(dir, "policy.json"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policyFile, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	server = harness.Start(t, harness.ShortTempDir(t), "--audit-policy-file="+policyFile, "--audit-log-path="+auditLog)
	config := server.Config()
	config.QPS = -1
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return server, admin, auditLog
}

func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	if err := harness.Until(patience, condition); err != nil {
		t.Fatalf("wait for %s: %v", what, err)
	}
}

// boundPod is a pod of somebody else, on a node of the run.
func boundPod(t *testing.T, admin kubernetes.Interface, name, node string, restart corev1.RestartPolicy) {
	t.Helper()
	no := false
	_, err := admin.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			"hollow.millrace.io/run-for": "100ms", "hollow.millrace.io/start-after": "50ms",
		}},
		Spec: corev1.PodSpec{
			NodeName: node, RestartPolicy: restart, ServiceAccountName: "ht", AutomountServiceAccountToken: &no,
			InitContainers: []corev1.Container{{Name: "before", Image: "i"}},
			Containers: []corev1.Container{{Name: "c", Image: "i", EnvFrom: []corev1.EnvFromSource{
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name + "-env"}}},
			}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func phaseOf(ctx context.Context, admin kubernetes.Interface, name string, want corev1.PodPhase) error {
	pod, err := admin.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
	if err == nil && pod.Status.Phase != want {
		err = fmt.Errorf("pod %s is %s", name, pod.Status.Phase)
	}
	return err
}

func TestHollow(t *testing.T) {
	t.Parallel()
	server, admin, auditLog := start(t)
	t.Run("nodes", func(t *testing.T) { testNodes(t, server, admin, auditLog) })
	t.Run("provision", func(t *testing.T) { testProvision(t, server, admin) })
	t.Run("report", func(t *testing.T) { testReport(t, server) })
	t.Run("mistakes", func(t *testing.T) { testMistakes(t, server) })
}

// Nodes become ready, pods on them run, complete and end, and nothing is left of a run that
// was killed.
func testNodes(t *testing.T, server *harness.Server, admin kubernetes.Interface, auditLog string) {
	ctx, kubeconfig := t.Context(), "--kubeconfig="+server.Kubeconfig()
	hollow := harness.Command(t, "hollow", kubeconfig, "--name=ht", fmt.Sprint("--nodes=", nodes), "--agents=network,exporter",
		"--pods=1", "--pod-start=100ms", "--start=storm", "--impersonate")

	eventually(t, "ready nodes with running pods", func() error { return allReady(ctx, admin) })
	boundPod(t, admin, "job", "ht-00003", corev1.RestartPolicyNever)
	boundPod(t, admin, "app", "ht-00003", corev1.RestartPolicyAlways)
	eventually(t, "a job's end", func() error { return phaseOf(ctx, admin, "job", corev1.PodSucceeded) })
	eventually(t, "an application's start", func() error { return phaseOf(ctx, admin, "app", corev1.PodRunning) })
	eventually(t, "the watch of a pod's config map", func() error {
		return logHas(auditLog, event{"system:node:ht-00003", "kubelet/", "watch", "/api/v1/namespaces/default/configmaps", "fieldSelector=metadata.name=app-env"})
	})
	if err := admin.CoreV1().Pods("default").Delete(ctx, "app", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a pod's end", func() error {
		if _, err := admin.CoreV1().Pods("default").Get(ctx, "app", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("get: %v", err)
		}
		return nil
	})
	for _, e := range shapes() {
		eventually(t, "a request in the audit log", func() error { return logHas(auditLog, e) })
	}
	boundPod(t, admin, "left", "ht-00004", corev1.RestartPolicyAlways)
	hollow.Kill()

	if output, code := harness.Run(t, "hollow", kubeconfig, "--name=ht", "--delete"); code != 0 {
		t.Fatalf("delete: %s", output)
	}
	nothingLeft(t, admin)
}

// allReady checks the nodes, their leases and their pods.
func allReady(ctx context.Context, admin kubernetes.Interface) error {
	list, err := admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "millrace.io/hollow=ht"})
	if err != nil {
		return err
	}
	ready := 0
	for i := range list.Items {
		for _, c := range list.Items[i].Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	leases, err := admin.CoordinationV1().Leases("kube-node-lease").List(ctx, metav1.ListOptions{LabelSelector: "millrace.io/hollow=ht"})
	if err != nil {
		return err
	}
	pods, err := admin.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "millrace.io/hollow=ht"})
	if err != nil {
		return err
	}
	running, addresses := 0, map[string]bool{}
	for i := range pods.Items {
		status := &pods.Items[i].Status
		for _, c := range status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && status.ContainerStatuses[0].State.Running != nil {
				running++
				addresses[status.PodIP] = true
			}
		}
	}
	if ready != nodes || len(leases.Items) != nodes || running != nodes || len(addresses) != nodes {
		return fmt.Errorf("%d nodes are ready, %d have leases, %d pods run with %d addresses", ready, len(leases.Items), running, len(addresses))
	}
	return nil
}

// event is what an audit event has to have: the user, and the beginnings or parts of others.
type event struct{ user, agent, verb, path, query string }

// shapes are requests that each run of this test sends.
func shapes() []event {
	const one = "ht-00007"
	proxy, cilium, exporter := "system:serviceaccount:kube-system:kube-proxy", "system:serviceaccount:kube-system:cilium", "system:serviceaccount:monitoring:node-exporter"
	return []event{
		{"system:node:" + one, "kubelet/", "create", "/api/v1/nodes", ""},
		{"system:node:" + one, "kubelet/", "patch", "/api/v1/nodes/" + one + "/status", ""},
		{"system:node:" + one, "kubelet/", "create", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", ""},
		{"system:node:" + one, "kubelet/", "watch", "/api/v1/pods", "fieldSelector=spec.nodeName=" + one},
		{"system:node:" + one, "kubelet/", "watch", "/api/v1/nodes", "fieldSelector=metadata.name=" + one},
		{"system:node:" + one, "kubelet/", "watch", "/api/v1/namespaces/default/secrets", "fieldSelector=metadata.name=ht"},
		{"system:node:" + one, "kubelet/", "watch", "/apis/storage.k8s.io/v1/csidrivers", "sendInitialEvents=true"},
		{"system:node:" + one, "kubelet/", "patch", "/api/v1/namespaces/default/pods/" + one + "-0/status", ""},
		{proxy, "kube-proxy/", "watch", "/apis/discovery.k8s.io/v1/endpointslices", "labelSelector=!service.kubernetes.io/headless"},
		{cilium, "cilium-agent/", "list", "/api/v1/pods", "resourceVersion=0"},
		{cilium, "cilium-agent/", "watch", "/api/v1/namespaces", "allowWatchBookmarks=true"},
		{exporter, "node-exporter/", "list", "/api/v1/pods", "fieldSelector=spec.nodeName=" + one},
		{exporter, "node-exporter/", "watch", "/api/v1/pods", "fieldSelector=spec.nodeName=" + one},
	}
}

// logHas returns an error if a log has no event like this that succeeded.
func logHas(file string, want event) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		var got struct {
			Verb, RequestURI, UserAgent string
			ImpersonatedUser            struct{ Username string }
			ResponseStatus              struct{ Code int }
		}
		if json.Unmarshal(line, &got) != nil || got.ImpersonatedUser.Username != want.user || got.Verb != want.verb || !strings.HasPrefix(got.UserAgent, want.agent) {
			continue
		}
		uri, err := url.Parse(got.RequestURI)
		if err != nil || uri.Path != want.path || got.ResponseStatus.Code >= 300 || got.ResponseStatus.Code == 0 {
			continue
		}
		if query, err := url.QueryUnescape(uri.RawQuery); err == nil && strings.Contains(query, want.query) {
			return nil
		}
	}
	return fmt.Errorf("the audit log has no %+v", want)
}

func nothingLeft(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	ctx, labelled := t.Context(), metav1.ListOptions{LabelSelector: "millrace.io/hollow"}
	check := func(what string, left int, err error) {
		if err != nil || left > 0 {
			t.Errorf("%d %s are left (%v)", left, what, err)
		}
	}
	pods, err := admin.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	check("pods", len(pods.Items), err)
	deployments, err := admin.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	check("deployments", len(deployments.Items), err)
	sets, err := admin.AppsV1().ReplicaSets("").List(ctx, metav1.ListOptions{})
	check("replica sets", len(sets.Items), err)
	list, err := admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	check("nodes", len(list.Items), err)
	leases, err := admin.CoordinationV1().Leases("kube-node-lease").List(ctx, metav1.ListOptions{})
	check("leases", len(leases.Items), err)
	csiNodes, err := admin.StorageV1().CSINodes().List(ctx, metav1.ListOptions{})
	check("CSINodes", len(csiNodes.Items), err)
	secrets, err := admin.CoreV1().Secrets("").List(ctx, labelled)
	check("secrets", len(secrets.Items), err)
	configs, err := admin.CoreV1().ConfigMaps("").List(ctx, labelled)
	check("config maps", len(configs.Items), err)
	accounts, err := admin.CoreV1().ServiceAccounts("").List(ctx, labelled)
	check("service accounts", len(accounts.Items), err)
}

// The report of a run has its requests.
func testReport(t *testing.T, server *harness.Server) {
	kubeconfig := "--kubeconfig=" + server.Kubeconfig()
	output, code := harness.Run(t, "hollow", kubeconfig, "--nodes=3", "--agents=offenders", "--duration=3s", "--connections-per-node=0.5", "-o", "json")
	if code != 0 {
		t.Fatal(output)
	}
	var report struct {
		Nodes, Connections int64
		Rows               []struct {
			Agent, Verb, Request           string
			Requests, Errors, Events, Open int64
		}
	}
	if err := json.Unmarshal([]byte(output[strings.Index(output, "\n{")+1:]), &report); err != nil {
		t.Fatalf("%v in\n%s", err, output)
	}
	if report.Nodes != 3 || report.Connections < 1 {
		t.Errorf("%d nodes, %d connections", report.Nodes, report.Connections)
	}
	watched, polled := false, false
	for _, r := range report.Rows {
		watched = watched || r.Agent == "kubelet" && r.Verb == "watch" && r.Open == 3 && r.Events > 0
		polled = polled || r.Agent == "offender-poller" && r.Verb == "list" && r.Requests == 3
		if r.Errors > 0 {
			t.Errorf("%s %s %s: %d errors", r.Agent, r.Verb, r.Request, r.Errors)
		}
	}
	if !watched || !polled {
		t.Errorf("the report lacks watches of kubelets or lists of pollers: %+v", report.Rows)
	}
}

// A mistake is told in one line that says what to do.
func testMistakes(t *testing.T, server *harness.Server) {
	for _, c := range [][2]string{
		{"--agents=nosuch", "choose from"}, {"--nodes=0", "choose 1 to"}, {"--kubeconfig=nosuch", "give another --kubeconfig"},
		{"--server=https://127.0.0.1:1", "check that it runs"}, {"--name=A_B", "small letters"},
	} {
		output, code := harness.Run(t, "hollow", "--kubeconfig="+server.Kubeconfig(), c[0])
		if code == 0 || !strings.Contains(output, c[1]) || strings.Count(output, "\n") != 1 {
			t.Errorf("%s: exit code %d, %s", c[0], code, output)
		}
	}
}
