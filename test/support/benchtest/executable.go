package benchtest

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/internal/lab/bench/floor"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// childEnv is the environment variable that makes Main act as millrace. Children of Run have it.
const childEnv = "MILLRACE_BENCH_TEST_CHILD"

// Main runs a package's tests. In a child of Run it acts as the millrace binary instead:
// "serve", "etcd", "fill" and "replica" are fakes, the commands of "bench" are real.
func Main(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	root, bench := &cobra.Command{Use: "millrace"}, &cobra.Command{Use: "bench"}
	bench.AddCommand(floor.NewCommand(), testbed.NewProxyCommand())
	root.AddCommand(bench, serveCommand(), etcdCommand(), fillCommand(), replicaCommand())
	if root.Execute() != nil {
		os.Exit(1)
	}
}

// serveCommand returns a command "serve" that runs an API. The API has pods and secrets if
// fillCommand has run on the same data. --break makes it fail:
//
//	start    it does not start
//	deaf     it never becomes ready
//	list     it ends with the first LIST
//	openapi  OpenAPI v2 does not have the definitions
func serveCommand() *cobra.Command {
	var dir, etcd, readPath, broken string
	var port int
	cmd := &cobra.Command{Use: "serve", SilenceUsage: true, RunE: func(*cobra.Command, []string) error {
		fmt.Println("serving", readPath)
		if broken == "start" {
			return errors.New("the disk is full")
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if broken == "deaf" {
			<-ctx.Done()
			return nil
		}
		api := &API{Nodes: 3}
		api.definitions.dir, api.definitions.openAPIBroken = dir, broken == "openapi"
		if (fillMark{dir, etcd}).isSet() {
			api.Pods = 700
			api.Secrets = 20
		}
		if _, err := os.Stat(filepath.Join(dir, customMark)); err == nil {
			api.Customs = 700
		}
		if broken == "list" {
			api.onList = func() { os.Exit(7) }
		}
		return serve(ctx, api, port, filepath.Join(dir, "admin.kubeconfig"))
	}}
	cmd.Flags().StringVar(&dir, "data-dir", "", "")
	cmd.Flags().StringVar(&etcd, "etcd-servers", "", "")
	cmd.Flags().StringVar(&readPath, "read-path", "", "")
	cmd.Flags().StringVar(&broken, "break", "", "")
	cmd.Flags().IntVar(&port, "secure-port", 0, "")
	cmd.Flags().String("feature-gates", "", "")
	cmd.Flags().Bool("encode-ahead", true, "")
	cmd.Flags().Bool("transcode", true, "")
	cmd.Flags().Duration("request-timeout", 0, "")
	return cmd
}

// serve serves on a local port until the context ends. It writes a kubeconfig for the port, which
// is valid for later servers on it, too: all have the same certificate.
func serve(ctx context.Context, handler http.Handler, port int, kubeconfig string) error {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	s := httptest.NewUnstartedServer(handler)
	s.Listener.Close()
	s.Listener, s.EnableHTTP2 = listener, true
	s.StartTLS()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := WriteKubeconfig(kubeconfig, s.URL, authority); err != nil {
		return err
	}
	<-ctx.Done()
	return s.Config.Close()
}

// fillCommand returns a command "fill" that creates no objects, but only marks: a fillMark, or
// customMark for custom objects.
func fillCommand() *cobra.Command {
	var kubeconfig, etcd string
	var remove bool
	var objects int
	cmd := &cobra.Command{Use: "fill", SilenceUsage: true, RunE: func(*cobra.Command, []string) error {
		if remove {
			return os.RemoveAll(filepath.Join(filepath.Dir(kubeconfig), FillMark))
		}
		if objects > 0 {
			return os.WriteFile(filepath.Join(filepath.Dir(kubeconfig), customMark), nil, 0o600)
		}
		return fillMark{filepath.Dir(kubeconfig), etcd}.create()
	}}
	cmd.Flags().IntVar(&objects, "objects", 0, "")
	cmd.Flags().BoolVar(&remove, "delete", false, "")
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "")
	cmd.Flags().StringVar(&etcd, "etcd-servers", "", "")
	for _, name := range []string{"nodes", "pods", "pod-size", "namespaces", "secrets", "secret-size", "seed", "crds", "groups", "context"} {
		cmd.Flags().String(name, "", "")
	}
	for _, name := range []string{"workloads", "ownerless", "leases"} {
		cmd.Flags().Bool(name, false, "")
	}
	return cmd
}

// etcdScheme is the scheme of the URL of etcdCommand's etcd. The path is the data directory.
const etcdScheme = "fake://"

// etcdCommand returns a command "etcd" that stores nothing. A fillMark is a file in its data
// directory.
func etcdCommand() *cobra.Command {
	var dir, sockets string
	cmd := &cobra.Command{Use: "etcd", SilenceUsage: true, RunE: func(*cobra.Command, []string) error {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := testbed.WriteJSON(filepath.Join(sockets, "address.json"), testbed.Address{URL: etcdScheme + dir}); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}}
	cmd.Flags().StringVar(&dir, "dir", "", "")
	cmd.Flags().StringVar(&sockets, "sockets", "", "")
	return cmd
}

// customMark is the name of a file that exists if custom objects were filled in.
const customMark = "custom"

// fillMark is a file that exists if data was filled in. It is in the data directory of the
// external etcd, or without one beside the kubeconfig.
type fillMark struct{ dir, etcd string }

// FillMark is the name of the file of a fillMark.
const FillMark = "filled"

func (m fillMark) file() string {
	if m.etcd != "" {
		return filepath.Join(strings.TrimPrefix(m.etcd, etcdScheme), FillMark)
	}
	return filepath.Join(m.dir, FillMark)
}

func (m fillMark) create() error { return os.WriteFile(m.file(), nil, 0o600) }

func (m fillMark) isSet() bool {
	_, err := os.Stat(m.file())
	return err == nil
}

// WriteKubeconfig writes a kubeconfig for the server at url. ca is its authority in PEM.
func WriteKubeconfig(path, url string, ca []byte) error {
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["c"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: ca}
	cfg.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "secret"}
	cfg.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	cfg.CurrentContext = "x"
	if err := clientcmd.WriteToFile(*cfg, path+".new"); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Run executes cmd as a subcommand of "bench". args begin with its name.
func Run(t *testing.T, cmd *cobra.Command, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	t.Setenv(childEnv, "1")
	t.Setenv(testbed.ServerVariable, os.Args[0])
	root, bench := &cobra.Command{Use: "millrace"}, &cobra.Command{Use: "bench"}
	root.AddCommand(bench)
	bench.AddCommand(cmd)
	var out, errs strings.Builder
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(append([]string{"bench"}, args...))
	err = root.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}
