package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"crypto/tls"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// childEnv makes the test binary act as the millrace binary.
const childEnv = "MILLRACE_BENCH_TEST_CHILD"

// TestMain also is the executable that comparisons run: "serve" and "fill"
// are fakes, "bench" is the real thing.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	root := &cobra.Command{Use: "millrace"}
	root.AddCommand(NewCommand(Config{}), fakeServe(), fakeFill())
	if root.Execute() != nil {
		os.Exit(1)
	}
}

// fakeServe is an API server that needs the file that fakeFill writes for its
// pods, and breaks as the value of --break says.
func fakeServe() *cobra.Command {
	var dir, readPath, broken string
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
		certificate, ca, err := selfSigned()
		if err != nil {
			return err
		}
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return err
		}
		if err := writeKubeconfig(filepath.Join(dir, "admin.kubeconfig"), "https://"+listener.Addr().String(), ca); err != nil {
			return err
		}
		api := &fakeAPI{nodes: 3}
		if _, err := os.Stat(filepath.Join(dir, "filled")); err == nil {
			api.pods = 700
		}
		if broken == "list" {
			api.onList = func() { os.Exit(7) }
		}
		server := &http.Server{Handler: api, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}}
		go server.ServeTLS(listener, "", "")
		<-ctx.Done()
		return server.Close()
	}}
	cmd.Flags().StringVar(&dir, "data-dir", "", "")
	cmd.Flags().StringVar(&readPath, "read-path", "", "")
	cmd.Flags().StringVar(&broken, "break", "", "")
	cmd.Flags().IntVar(&port, "secure-port", 0, "")
	return cmd
}

func fakeFill() *cobra.Command {
	var kubeconfig string
	cmd := &cobra.Command{Use: "fill", SilenceUsage: true, RunE: func(*cobra.Command, []string) error {
		return os.WriteFile(filepath.Join(filepath.Dir(kubeconfig), "filled"), nil, 0o600)
	}}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "")
	for _, name := range []string{"nodes", "pods", "pod-size", "namespaces"} {
		cmd.Flags().String(name, "", "")
	}
	return cmd
}

func writeKubeconfig(path, url string, ca []byte) error {
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

// run executes a command line as the user would.
func run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	t.Setenv(childEnv, "1")
	root := &cobra.Command{Use: "millrace"}
	root.AddCommand(NewCommand(Config{}))
	var out, errs strings.Builder
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(append([]string{"bench"}, args...))
	err = root.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}
