package testbed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/proxy"

	"github.com/millrace/millrace/internal/conn/kubeconfig"
	"github.com/millrace/millrace/internal/tool/interrupt"
)

// proxyAddressFile is the file with the Address of a proxy. It exists once the proxy listens.
const proxyAddressFile = "proxy.json"

// headerTimeout bounds how long a client of a proxy may take to send a header.
const headerTimeout = 30 * time.Second

// NewProxyCommand returns the hidden command "proxy" that StartProxy runs: kubectl's proxy, with
// several servers round-robin.
func NewProxyCommand() *cobra.Command {
	var servers, kubeconfigs, contexts []string
	var dir string
	cmd := &cobra.Command{
		Use:          "proxy",
		Short:        "Run kubectl's proxy in front of one server or several servers",
		Hidden:       true,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(servers) == 0 || len(servers) != len(kubeconfigs) || len(servers) != len(contexts) {
				return errors.New("give one --server or more, and one --kubeconfig and one --context for each --server")
			}
			ctx, stop := interrupt.Context(cmd.Context())
			defer stop()
			b := &balancer{}
			for i, url := range servers {
				cfg, err := (&kubeconfig.Flags{Kubeconfig: kubeconfigs[i], Context: contexts[i]}).Load("bench")
				if err != nil {
					return err
				}
				cfg.Host = url
				h, err := proxy.NewProxyHandler("/", nil, cfg, 0, false)
				if err != nil {
					return fmt.Errorf("make proxy: %w", err)
				}
				b.servers = append(b.servers, h)
			}
			return b.serve(ctx, dir)
		},
	}
	cmd.Flags().StringArrayVar(&servers, "server", nil, "URL of a server")
	cmd.Flags().StringArrayVar(&kubeconfigs, "kubeconfig", nil, "kubeconfig for the --server in the same position")
	cmd.Flags().StringArrayVar(&contexts, "context", nil, "context of the --kubeconfig in the same position; empty: its current context")
	cmd.Flags().StringVar(&dir, "dir", "", "directory to write the address to")
	return cmd
}

// balancer hands requests to servers round-robin.
type balancer struct {
	next    atomic.Uint64
	servers []http.Handler
}

// ServeHTTP hands a request to the next server.
func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i := b.next.Add(1) - 1
	b.servers[i%uint64(len(b.servers))].ServeHTTP(w, r)
}

// serve serves plain HTTP on a free local port, and writes the address to dir. The end of ctx cuts
// all requests.
func (b *balancer) serve(ctx context.Context, dir string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: b, ReadHeaderTimeout: headerTimeout}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := WriteJSON(filepath.Join(dir, proxyAddressFile), Address{URL: "http://" + l.Addr().String()}); err != nil {
		return err
	}
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// StartProxy runs kubectl's proxy in front of servers, which get requests round-robin. The proxy
// speaks plain HTTP/1.1 and adds the credentials. logName must be unique: it names the work
// directory, and the log without ".log". The caller must call Testbed.End.
func (b *Testbed) StartProxy(ctx context.Context, logName string, servers ...*Server) (*Server, error) {
	dir := filepath.Join(b.dir, logName)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create work directory: %w", err)
	}
	args := []string{"bench", "proxy", "--dir=" + dir}
	for _, s := range servers {
		args = append(args, "--server="+s.Target.BaseURL, "--kubeconfig="+s.Kubeconfig, "--context="+s.context)
	}
	process, err := StartChild(ChildConfig{Path: b.Own, LogFile: b.LogPath(logName + ".log"), Args: args})
	if err != nil {
		return nil, err
	}
	s := &Server{Child: process}
	var address Address
	if err = process.Await(ctx, filepath.Join(dir, proxyAddressFile), &address); err == nil {
		s.Target, err = NewTarget(TargetConfig{REST: &rest.Config{Host: address.URL}, HTTP1: true})
	}
	if err != nil {
		s.Stop(ctx)
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	return s, nil
}
