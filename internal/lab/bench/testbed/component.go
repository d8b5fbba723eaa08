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

// healthPath returns the path at which a component answers 200 once it works. The scheduler
// is ready once its informers have all objects.
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

// StartComponent starts a component, and returns when it works, or with an error after
// Options.ReadyTimeout. The caller must call Stop on the Child.
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
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
		"--cert-dir=" + filepath.Join(b.dir, c.Name+"-certificates"), "--leader-elect=false",
	}, c.Args...)
	child, err := StartChild(ChildConfig{Path: program, Args: args, LogFile: b.LogPath(c.Name + ".log")})
	if err != nil {
		return nil, err
	}
	address := "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) + healthPath(c.Name)
	// The component signs its own certificate. The probe sends no secret.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	probe := func(ctx context.Context) error { return probeHealth(ctx, transport, address) }
	if err := child.poll(ctx, b.Config.ReadyTimeout, probe); err != nil {
		child.Stop(ctx)
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	return child, nil
}

// probeHealth sends a GET without credentials. It returns an error unless the status is 200.
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

// ComponentKubeconfig writes the kubeconfig with which a component reaches server, as the user
// that "serve" has made for the component. It returns the name of the file.
func (b *Testbed) ComponentKubeconfig(component string, server *Server) (string, error) {
	config, err := clientcmd.LoadFromFile(filepath.Join(b.data(), component+".kubeconfig"))
	if err != nil {
		return "", fmt.Errorf("read kubeconfig of %s: %w", component, err)
	}
	rest := server.Target.Config.REST
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

// ClusterKubeconfig writes the kubeconfig with which components reach a cluster that exists,
// and returns the name of the file. Its current context is the one that the flags select. It
// may have an administrator's credentials: closing a Testbed without an external etcd
// removes it, also from a --work-dir.
func (b *Testbed) ClusterKubeconfig(cluster *kubeconfig.Flags) (string, error) {
	config, err := cluster.Select()
	if err != nil {
		return "", err
	}
	file := b.kubeconfigFile()
	// WriteToFile gives a new file the mode 0600, but does not change the mode of an old one.
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("write kubeconfig of the cluster: %w", err)
	}
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return "", fmt.Errorf("write kubeconfig of the cluster: %w", err)
	}
	return file, nil
}

func (b *Testbed) kubeconfigFile() string { return filepath.Join(b.dir, "cluster.kubeconfig") }

// PKIPath returns the path of a key or certificate that "serve" has made.
func (b *Testbed) PKIPath(name string) string { return filepath.Join(b.data(), "pki", name) }
