package replica

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/internal/apiserver/program"
	"github.com/millrace/millrace/internal/conn/kubeconfig"
)

// source names the upstream and the user to be there.
func (o *Options) source() *kubeconfig.Flags {
	return &kubeconfig.Flags{Kubeconfig: o.Kubeconfig, Context: o.Context}
}

// kubeconfigFile returns a file whose current context leads to the upstream, for those parts
// of Kubernetes that read one. The caller calls remove once they have read it.
func (o *Options) kubeconfigFile() (name string, remove func(), err error) {
	if o.Context == "" {
		return o.Kubeconfig, func() {}, nil
	}
	config, err := o.source().Select()
	if err != nil {
		return "", nil, err
	}
	return kubeconfig.Temporary(config)
}

// writeKubeconfig writes the kubeconfig that leads to the replica: a copy of the
// upstream's context, with another address and authority.
func (r *Replica) writeKubeconfig() error {
	config, err := r.options.source().Select()
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
		config.Clusters[name] = &clientcmdapi.Cluster{Server: r.options.URL(), CertificateAuthorityData: authority}
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
	fmt.Fprintf(r.out, "\nmillrace is ready at %s (replica, follows %s)\n", r.options.URL(), source)
	if file := r.options.WriteKubeconfig; file != "" {
		kubectl := program.Name() + " kubectl --kubeconfig=" + file
		fmt.Fprintf(r.out, "  kubeconfig   %s\n  try          %s get pods -A\n  page         %s proxy, then http://127.0.0.1:8001/millrace/\n\n", file, kubectl, kubectl)
	}
}
