package server

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// writeKubeconfig writes the kubeconfig that leads to the replica: that of the upstream's
// current context, with another address and authority.
func (r *Replica) writeKubeconfig() error {
	config, err := clientcmd.LoadFromFile(r.options.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read --kubeconfig: %w", err)
	}
	if err := clientcmdapi.MinifyConfig(config); err != nil {
		return fmt.Errorf("read --kubeconfig: %w", err)
	}
	// Relative file names would mean others from another directory.
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return fmt.Errorf("read --kubeconfig: %w", err)
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
