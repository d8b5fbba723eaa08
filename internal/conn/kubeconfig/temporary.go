package kubeconfig

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Temporary returns the name of a file that has a kubeconfig, for code in this process that
// reads one by its name. The caller calls remove when nobody reads it any more. On Linux
// the file exists only in the memory of the process, so no credentials remain if the
// process is killed. Elsewhere it is in a directory that only this user may enter.
func Temporary(config *clientcmdapi.Config) (name string, remove func(), err error) {
	text, err := clientcmd.Write(*config)
	if err != nil {
		return "", nil, fmt.Errorf("write a kubeconfig: %w", err)
	}
	return temporaryFile(text)
}

// fileInDirectory writes a file in a new directory.
func fileInDirectory(text []byte) (name string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "millrace-")
	if err != nil {
		return "", nil, fmt.Errorf("make a directory for a kubeconfig: %w", err)
	}
	remove = func() { _ = os.RemoveAll(dir) }
	name = filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		remove()
		return "", nil, fmt.Errorf("write a kubeconfig: %w", err)
	}
	return name, remove, nil
}
