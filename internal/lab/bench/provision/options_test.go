package provision

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/support/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

func command(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return benchtest.Run(t, NewCommand(), append([]string{"provision"}, args...)...)
}

// TestMistakes checks that the error of each mistake is one line that says what to do.
func TestMistakes(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct{ args, message string }{
		{"--slo=start<1s", "with a step of provision, bind, kubelet, run, watch"},
		{"--nodes=0", "--nodes=0"},
		{"--pods=110 --nodes=1", "raise --nodes"},
		{"--pods=100000 --nodes=1000 --watchers=1000", "lower one of them"},
		{"--pods-of=jobs", "choose deployments or pods"},
		{"--paths=etcd", "choose among millrace"},
		{"--paths=millrace,millrace", "each once"},
		{"--paths=kube-apiserver", "make bin/kube-apiserver"},
		{"--kube-apiserver=" + missing, "make bin/kube-apiserver"},
		{"--delete", "needs the --kubeconfig"},
		{"--own-components", "needs --kubeconfig"},
		{"--kubeconfig=x --paths=millrace", "leave them out"},
		{"--kubeconfig=x --server-arg=--v=2", "leave them out"},
		{"--context=x", "--context needs the --kubeconfig"},
		{"--report=" + missing + "/page.html", "give another file"},
		{"--slo=x --from=" + missing, "leave it out with --from"},
		{"--kubeconfig=" + missing + " --delete", "no such file"},
		{"--rate=-1", "--rate"},
		{"--agents=nosuch", "choose from"},
		{"--name=A_B", "small letters"},
		{"--timeout=0s", "--timeout=0s"},
		{"-o=xml", "-o xml"},
	} {
		_, _, err := command(t, strings.Fields(c.args)...)
		if err == nil || !strings.Contains(err.Error(), c.message) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want %q", c.args, err, c.message)
		}
	}
}
