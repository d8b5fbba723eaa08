package kubeconfig

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Select returns the kubeconfig f.Kubeconfig with f.Context alone, or with its current context
// alone. Names of files in it are absolute. It is for callers that make another kubeconfig of
// it.
func (f *Flags) Select() (*clientcmdapi.Config, error) {
	config, err := clientcmd.LoadFromFile(f.Kubeconfig)
	if err == nil {
		if f.Context != "" {
			config.CurrentContext = f.Context
		}
		err = clientcmdapi.MinifyConfig(config)
	}
	if err == nil {
		err = clientcmd.ResolveLocalPaths(config)
	}
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w: %s", oneLine(err), f.advice())
	}
	return config, nil
}
