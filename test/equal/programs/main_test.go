// Package programs runs programs that people use with clusters through a replica, and
// straight at the API server behind it: kubectl, helm, an operator, and Kubernetes' own
// controllers and scheduler. What a program prints and its exit status must be the same.
//
// One upstream serves three sides: a namespace that is used straight, one through a replica
// that follows etcd, and one through a replica that follows the API. Stub kubelets stand
// behind logs, commands and forwarded ports, so that no container runtime is needed.
//
// `go test` runs a short form. With MILLRACE_ROBUSTNESS=1 it runs all scripts, which takes
// minutes. MILLRACE_KUBE_APISERVER names a kube-apiserver to use as the upstream,
// MILLRACE_KUBECTL a kubectl, and MILLRACE_HELM a helm, without which helm is skipped.
package programs

import (
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	runtimelog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/millrace/millrace/test/support/harness"
)

const (
	// longVariable chooses the long form.
	longVariable = "MILLRACE_ROBUSTNESS"
	// kubectlVariable and helmVariable name programs to use.
	kubectlVariable = "MILLRACE_KUBECTL"
	helmVariable    = "MILLRACE_HELM"
)

// patience bounds every wait. It is generous, since machines are shared.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	runtimelog.SetLogger(logr.Discard())
	harness.Main(m)
}

func long() bool { return os.Getenv(longVariable) != "" }

// TestThroughReplica is one test with parts, since all parts share its servers.
func TestThroughReplica(t *testing.T) {
	c := newCluster(t, "etcd")
	t.Run("kubectl", func(t *testing.T) {
		c.script(t, "core")
		if long() {
			c.script(t, "objects")
			c.script(t, "reading")
			c.script(t, "users")
			c.script(t, "nodes")
			c.script(t, "guide")
		}
	})
	t.Run("streams", c.streams)
	t.Run("operator", func(t *testing.T) {
		c.eachSide(t, func(t *testing.T, s *side) { s.operator(t) })
	})
	t.Run("helm", c.helm)
	t.Run("control plane", c.controlPlane)
}

// TestControlPlaneThroughAPI has the controllers and the scheduler read through a replica
// that follows the API. In TestThroughReplica, etcd is followed.
func TestControlPlaneThroughAPI(t *testing.T) {
	if !long() {
		t.Skipf("%s=1 or make robustness runs it", longVariable)
	}
	newCluster(t, "api").controlPlane(t)
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// must fails the test for an error.
func must[T any](made T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		check(tb, err)
		return made
	}
}

// eventually polls until condition returns nil.
func eventually(tb testing.TB, what string, condition func() error) {
	tb.Helper()
	if err := harness.Until(patience, condition); err != nil {
		tb.Fatalf("%s: not so within %v: %v", what, patience, err)
	}
}
