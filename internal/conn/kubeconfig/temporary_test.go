package kubeconfig_test

import (
	"os"
	"runtime"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/internal/conn/kubeconfig"
)

// TestTemporary: the file can be read as often as one likes, and nothing remains.
func TestTemporary(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	name, remove, err := kubeconfig.Temporary(&clientcmdapi.Config{AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {Token: "secret"}}, CurrentContext: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if read, err := clientcmd.LoadFromFile(name); err != nil || read.AuthInfos["u"].Token != "secret" || read.CurrentContext != "x" {
			t.Errorf("%+v, %v", read, err)
		}
	}
	if files, err := os.ReadDir(dir); runtime.GOOS == "linux" && (err != nil || len(files) > 0) {
		t.Errorf("there is a file while it is used: %v, %v", files, err)
	}
	remove()
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
	if _, err := os.Stat(name); err == nil {
		t.Error("the file is still there")
	}
}
