package verify_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/internal/tool/verify"
)

// TestContext verifies the server of a context that is not the current one, and refuses one
// that the kubeconfig does not have.
func TestContext(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			"there": {Server: newFakeAPI(t, "").Host}, "nowhere": {Server: "http://127.0.0.1:1"},
		},
		Contexts:       map[string]*clientcmdapi.Context{"there": {Cluster: "there"}, "nowhere": {Cluster: "nowhere"}},
		CurrentContext: "nowhere",
	}, file)
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		cmd := verify.NewCommand("test")
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		cmd.SetArgs(append(args, "--kubeconfig="+file, "--duration=500ms"))
		cmd.SilenceErrors = true
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	if out, err := run("--context=there"); err != nil || !strings.Contains(out, "violations") {
		t.Errorf("the other context: %v\n%s", err, out)
	}
	if _, err := run("--context=missing"); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a context that is missing: %v", err)
	}
}

// TestOwnKubeconfigIsNotUsed checks that the kubeconfig in the home directory is not used: a run
// writes, so its cluster must be named.
func TestOwnKubeconfigIsNotUsed(t *testing.T) {
	api := newFakeAPI(t, "")
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("KUBECONFIG", "")
	if err := os.Rename(kubeconfigOf(t, api.Host), filepath.Join(home, "named")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(home, ".kube"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(home, "named"), filepath.Join(home, ".kube", "config")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{nil, {"--delete"}} {
		cmd := verify.NewCommand("test")
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		cmd.SetArgs(append(args, "--duration=100ms"))
		cmd.SilenceErrors = true
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "kubeconfig") {
			t.Errorf("%v: got %v", args, err)
		}
	}
}

// kubeconfigOf writes a kubeconfig of a server.
func kubeconfigOf(t *testing.T, host string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"one": {Server: host}},
		Contexts:       map[string]*clientcmdapi.Context{"one": {Cluster: "one"}},
		CurrentContext: "one",
	}, file)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
