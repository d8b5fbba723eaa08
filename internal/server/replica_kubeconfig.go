package server

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// upstreamConfig is how the replica itself reaches the upstream.
func (o *ReplicaOptions) upstreamConfig() (*rest.Config, error) {
	config, err := readKubeconfig(o.Kubeconfig, o.Context)
	if err != nil {
		return nil, fmt.Errorf("read --kubeconfig: %w", err)
	}
	return config, nil
}

// readKubeconfig reads the configuration of a client by a context; "" is the current one.
func readKubeconfig(file, context string) (*rest.Config, error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: file}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
}

// loadKubeconfig reads the kubeconfig and leaves the chosen context alone in it.
func (o *ReplicaOptions) loadKubeconfig() (*clientcmdapi.Config, error) {
	config, err := clientcmd.LoadFromFile(o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read --kubeconfig: %w", err)
	}
	if o.Context != "" {
		config.CurrentContext = o.Context
	}
	if err := clientcmdapi.MinifyConfig(config); err != nil {
		return nil, fmt.Errorf("read --kubeconfig: %w", err)
	}
	// Relative file names would mean others from another directory.
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return nil, fmt.Errorf("read --kubeconfig: %w", err)
	}
	return config, nil
}

// kubeconfigFile returns a file whose current context leads to the upstream, for those parts
// of Kubernetes that read one. The caller calls remove when they have.
func (o *ReplicaOptions) kubeconfigFile() (name string, remove func(), err error) {
	if o.Context == "" {
		return o.Kubeconfig, func() {}, nil
	}
	config, err := o.loadKubeconfig()
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "millrace-replica-") // only this user may enter it
	if err != nil {
		return "", nil, fmt.Errorf("make a directory for a kubeconfig: %w", err)
	}
	remove = func() { _ = os.RemoveAll(dir) }
	name = filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, name); err != nil {
		remove()
		return "", nil, fmt.Errorf("write a kubeconfig with one context: %w", err)
	}
	return name, remove, nil
}

// writeKubeconfig writes the kubeconfig that leads to the replica: that of the upstream's
// context, with another address and authority.
func (r *Replica) writeKubeconfig() error {
	config, err := r.options.loadKubeconfig()
	if err != nil {
		return err
	}
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		return fmt.Errorf("read --kubeconfig: %w", err)
	}
	authority, err := os.ReadFile(r.options.Kube.ServingCertificate())
	if err != nil {
		return fmt.Errorf("read serving certificate: %w", err)
	}
	for name := range config.Clusters {
		config.Clusters[name] = &clientcmdapi.Cluster{Server: r.options.url(), CertificateAuthorityData: authority}
	}
	if err := clientcmd.WriteToFile(*config, r.options.WriteKubeconfig); err != nil {
		return fmt.Errorf("write --write-kubeconfig: %w", err)
	}
	return nil
}

// printWelcome prints the address of a replica that is ready, and how to use it.
func (r *Replica) printWelcome() {
	source := "the upstream's API"
	if r.options.usesEtcd() {
		source = "etcd"
	}
	fmt.Fprintf(r.out, "\nmillrace is ready at %s (replica, follows %s)\n", r.options.url(), source)
	if kubeconfig := r.options.WriteKubeconfig; kubeconfig != "" {
		fmt.Fprintf(r.out, "  kubeconfig   %s\n  try          %s kubectl --kubeconfig=%s get pods -A\n\n", kubeconfig, r.program, kubeconfig)
	}
}
