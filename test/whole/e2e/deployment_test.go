package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/test/support/harness"
)

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 50
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: registry.k8s.io/pause:3.10}]}
`

// TestDeployment runs Kubernetes' own controllers and scheduler against the server, and
// checks that a deployment becomes pods on nodes.
func TestDeployment(t *testing.T) {
	t.Setenv("HOME", t.TempDir()) // no kubeconfig of the user's
	s := harness.Start(t, harness.ShortTempDir(t))
	dataDir := "--data-dir=" + s.DataDir
	for _, component := range []string{"controller-manager", "scheduler"} {
		harness.Command(t, component, dataDir, fmt.Sprintf("--secure-port=%d", harness.FreePort(t)))
	}
	if output, code := harness.Run(t, "fill", dataDir, "--nodes=10"); code != 0 {
		t.Fatalf("fill ended with code %d: %s", code, output)
	}
	if output, code := harness.Run(t, "kubectl", "get", "ns", dataDir); code != 0 || !strings.Contains(output, "kube-system") {
		t.Errorf("kubectl get ns ended with code %d: %s", code, output)
	}
	manifest := writeFile(t, filepath.Join(t.TempDir(), "web.yaml"), deployment)
	if output, code := harness.Run(t, "kubectl", dataDir, "apply", "-f", manifest); code != 0 {
		t.Fatalf("kubectl apply ended with code %d: %s", code, output)
	}
	client := clientset(t, s)
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 10 {
		t.Fatalf("got %d nodes (%v), want 10", len(nodes.Items), err)
	}
	nodeNames := map[string]bool{}
	for _, node := range nodes.Items {
		nodeNames[node.Name] = true
	}
	eventually(t, func(ctx context.Context) error {
		pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return err
		}
		bound := 0
		for _, pod := range pods.Items {
			if nodeNames[pod.Spec.NodeName] {
				bound++
			}
		}
		if len(pods.Items) != 50 || bound != 50 {
			return fmt.Errorf("%d pods, %d of them on nodes", len(pods.Items), bound)
		}
		return nil
	})
}
