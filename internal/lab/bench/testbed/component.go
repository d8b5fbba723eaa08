package testbed

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/internal/conn/kubeconfig"
)

// The components of Kubernetes' control plane that StartComponent runs, by the names of
// Millrace's commands.
const (
	Scheduler         = "scheduler"
	ControllerManager = "controller-manager"
)

// healthPath says where a component tells that it works. The scheduler is ready once its
// informers have all objects.
func healthPath(component string) string {
	if component == Scheduler {
		return "/readyz"
	}
	return "/healthz"
}

// ComponentConfig says how to run a component. Name and Kubeconfig are required.
type ComponentConfig struct {
	Name       string // Scheduler or ControllerManager; also the name of its log
	Kubeconfig string
	Args       []string
}

// StartComponent starts a component, and returns when it works. The caller must call Stop.
func (b *Testbed) StartComponent(ctx context.Context, c ComponentConfig) (*Child, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	program, err := b.Config.serverProgram()
	if err != nil {
		return nil, err
	}
	args := append([]string{
		c.Name, "--kubeconfig=" + c.Kubeconfig, "--authentication-kubeconfig=" + c.Kubeconfig, "--authorization-kubeconfig=" + c.Kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port), "--cert-dir=" + filepath.Join(b.dir, c.Name+"-certificates"), "--leader-elect=false",
	}, c.Args...)
	child, err := StartChild(ChildConfig{Path: program, Args: args, LogFile: b.Logs(c.Name + ".log")})
	if err != nil {
		return nil, err
	}
	address := "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) + healthPath(c.Name)
	// The certificate is one that the component has made for itself. No secret is sent.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	if err := child.poll(ctx, b.Config.ReadyTimeout, func(ctx context.Context) error { return probeHealth(ctx, transport, address) }); err != nil {
		child.Stop(ctx)
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	return child, nil
}

// probeHealth asks an address that anybody may ask.
func probeHealth(ctx context.Context, transport *http.Transport, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// ComponentKubeconfig writes the kubeconfig with which a component reaches a server, as the
// user that "serve" has made for it.
func (b *Testbed) ComponentKubeconfig(component string, to *Server) (string, error) {
	config, err := clientcmd.LoadFromFile(filepath.Join(b.data(), component+".kubeconfig"))
	if err != nil {
		return "", fmt.Errorf("read kubeconfig of %s: %w", component, err)
	}
	rest := to.Target.Config.REST
	for name := range config.Clusters {
		config.Clusters[name] = &api.Cluster{
			Server: rest.Host, CertificateAuthority: rest.CAFile, CertificateAuthorityData: rest.CAData, TLSServerName: rest.ServerName,
		}
	}
	file := filepath.Join(b.dir, component+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return "", fmt.Errorf("write kubeconfig of %s: %w", component, err)
	}
	return file, nil
}

// ClusterKubeconfig writes the kubeconfig with which components reach a cluster that exists: its
// current context is the one of the flags. It may have an administrator's credentials, so it is
// removed when the Testbed is closed, also from a --work-dir.
func (b *Testbed) ClusterKubeconfig(cluster *kubeconfig.Flags) (string, error) {
	config, err := cluster.Select()
	if err != nil {
		return "", err
	}
	file := b.clusterKubeconfig()
	// WriteToFile gives a new file the mode 0600, and leaves that of an old one.
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("write kubeconfig of the cluster: %w", err)
	}
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return "", fmt.Errorf("write kubeconfig of the cluster: %w", err)
	}
	return file, nil
}

func (b *Testbed) clusterKubeconfig() string { return filepath.Join(b.dir, "cluster.kubeconfig") }

// PKI is the path of a key or certificate that "serve" has made.
func (b *Testbed) PKI(name string) string { return filepath.Join(b.data(), "pki", name) }
