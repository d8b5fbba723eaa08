package testbed

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/internal/conn/kubeconfig"
)

// TestObjectsLeft runs a "fill" that fails. The error says how to remove the objects, and sends
// the user of a bench to no other command.
func TestObjectsLeft(t *testing.T) {
	options := Options{At: "prod.kubeconfig", atContext: "east"}
	bed, closeBed, err := Open(t.Context(), Config{Options: options, Progress: NewProgress(io.Discard)})
	if err != nil {
		t.Fatal(err)
	}
	bed.Own = "/bin/false"
	bed.SetFilled()
	if err := closeBed(); err == nil || !strings.Contains(err.Error(), "repeat the command") || strings.Contains(err.Error(), "papers") {
		t.Errorf("got %v, want the advice to repeat the command", err)
	}
	if err := closeBed(); err != nil {
		t.Errorf("removed a second time: %v", err)
	}
}

// TestClusterKubeconfig checks that closing a testbed removes credentials from a --work-dir, which stays.
func TestClusterKubeconfig(t *testing.T) {
	work, given := t.TempDir(), filepath.Join(t.TempDir(), "kubeconfig")
	config := api.Config{
		CurrentContext: "x", Clusters: map[string]*api.Cluster{"c": {Server: "https://127.0.0.1:1"}},
		AuthInfos: map[string]*api.AuthInfo{"u": {Token: "secret"}}, Contexts: map[string]*api.Context{"x": {Cluster: "c", AuthInfo: "u"}},
	}
	copied := filepath.Join(work, "cluster.kubeconfig")
	if err := errors.Join(clientcmd.WriteToFile(config, given), os.WriteFile(copied, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	bed, closeBed, err := Open(t.Context(), Config{Options: Options{workDir: work}, Progress: NewProgress(io.Discard)})
	if err != nil {
		t.Fatal(err)
	}
	file, err := bed.ClusterKubeconfig(&kubeconfig.Flags{Kubeconfig: given})
	if err != nil || file != copied {
		t.Fatalf("got %q, %v", file, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("got %v, %v", info, err)
	}
	if err := closeBed(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file stays: %v", err)
	}
}
