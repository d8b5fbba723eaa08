package benchtest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/conn/kubeconfig"
)

// replicaCommand returns a command "replica" that runs a proxy of an API, without a cache.
// --break=start makes it fail.
func replicaCommand() *cobra.Command {
	var upstream, written, broken string
	var port int
	cmd := &cobra.Command{Use: "replica", SilenceUsage: true, RunE: func(*cobra.Command, []string) error {
		if broken == "start" {
			return errors.New("the disk is full")
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		proxy, err := newProxy(upstream)
		if err != nil {
			return err
		}
		return serve(ctx, proxy, port, written)
	}}
	cmd.Flags().StringVar(&upstream, "kubeconfig", "", "")
	cmd.Flags().StringVar(&written, "write-kubeconfig", "", "")
	cmd.Flags().StringVar(&broken, "break", "", "")
	cmd.Flags().IntVar(&port, "secure-port", 0, "")
	for _, name := range []string{"cert-dir", "etcd-servers", "follow"} {
		cmd.Flags().String(name, "", "")
	}
	return cmd
}

// newProxy returns a proxy of the server of a kubeconfig. It passes requests on with the
// credentials of their clients.
func newProxy(file string) (http.Handler, error) {
	config, err := (&kubeconfig.Flags{Kubeconfig: file}).Load("bench")
	if err != nil {
		return nil, err
	}
	upstream, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	proxy := httputil.NewSingleHostReverseProxy(upstream)
	proxy.Transport, err = rest.TransportFor(&rest.Config{Host: config.Host, TLSClientConfig: config.TLSClientConfig})
	return proxy, err
}
