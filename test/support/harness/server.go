package harness

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Server is a running `millrace serve`, or another API server in its place.
type Server struct {
	*Process
	URL     string
	DataDir string

	port int
	args []string
	// launch starts the program again, with the same port and arguments.
	launch func() *Server
}

// Start starts a server on a free port of the loopback address and waits until
// it is ready. args are added to the flags for the port and the data directory.
func Start(tb testing.TB, dataDir string, args ...string) *Server {
	tb.Helper()
	s := Launch(tb, dataDir, args...)
	s.WaitReady()
	return s
}

// Launch starts a server as Start does, and returns at once.
func Launch(tb testing.TB, dataDir string, args ...string) *Server {
	tb.Helper()
	return launchOn(tb, FreePort(tb), dataDir, args)
}

func launchOn(tb testing.TB, port int, dataDir string, args []string) *Server {
	tb.Helper()
	// Tests compare the answers of servers that write nothing by themselves.
	all := append([]string{"serve", "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--data-dir=" + dataDir, "--server-leases=false"}, args...)
	return &Server{
		Process: Command(tb, all...), URL: fmt.Sprintf("https://127.0.0.1:%d", port), DataDir: dataDir,
		port: port, args: args, launch: func() *Server { return launchOn(tb, port, dataDir, args) },
	}
}

// Restart starts a server or replica that has ended again, with the same port and arguments, and
// waits until it is ready.
func (s *Server) Restart() *Server {
	s.tb.Helper()
	restarted := s.launch()
	restarted.WaitReady()
	return restarted
}

// RestartWith starts a `millrace serve` that has ended again, with additional arguments, and
// waits until it is ready.
func (s *Server) RestartWith(args ...string) *Server {
	s.tb.Helper()
	restarted := launchOn(s.tb, s.port, s.DataDir, slices.Concat(s.args, args))
	restarted.WaitReady()
	return restarted
}

// Successor starts another server on the port of a running one, with the same authority and
// additional arguments, and waits until it is ready. Both servers share the port
// (--permit-port-sharing), so a new connection may reach either.
func (s *Server) Successor(args ...string) *Server {
	s.tb.Helper()
	dataDir := ShortTempDir(s.tb)
	if err := os.CopyFS(filepath.Join(dataDir, "pki"), os.DirFS(filepath.Join(s.DataDir, "pki"))); err != nil {
		s.tb.Fatalf("copy certificates: %v", err)
	}
	next := launchOn(s.tb, s.port, dataDir, slices.Concat(s.args, args))
	// The other server may answer /readyz on this port, so the output shows when it is ready.
	err := Until(readyTimeout, func() error {
		if !strings.Contains(next.Output(), "millrace is ready") {
			return ErrNotYet
		}
		return nil
	})
	if err != nil {
		s.tb.Fatalf("successor not ready after %v:\n%s", readyTimeout, next.tail)
	}
	return next
}

// WaitReady waits until /readyz answers 200. A server that ends, or is not ready in time, fails
// the test.
func (s *Server) WaitReady() {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		if s.Ready() == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-s.done:
			s.tb.Fatalf("server ended before it was ready: %v\n%s", s.err, s.tail)
		case <-ctx.Done():
			s.tb.Fatalf("server not ready after %v: %v\n%s", readyTimeout, s.Ready(), s.tail)
		}
	}
}

// Ready returns an error unless /readyz answers 200.
func (s *Server) Ready() error {
	config, err := s.loadConfig()
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	resp, err := client.Get(s.URL + "/readyz")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("readyz: %s", resp.Status)
	}
	return nil
}

// Kubeconfig returns the file name of the administrator's kubeconfig.
func (s *Server) Kubeconfig() string { return filepath.Join(s.DataDir, "admin.kubeconfig") }

// EtcdServers returns the flag by which another server uses the embedded etcd of this one.
func (s *Server) EtcdServers() string {
	return etcdServersFlag + "unix://" + filepath.Join(s.DataDir, "etcd", "client.sock")
}

// loadConfig is Config for a server whose kubeconfig may not exist yet. It has the default rate limits.
func (s *Server) loadConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.Host = s.URL
	return config, nil
}

// Config returns the administrator's client configuration, without rate limits.
func (s *Server) Config() *rest.Config {
	s.tb.Helper()
	config, err := s.loadConfig()
	if err != nil {
		s.tb.Fatalf("read kubeconfig: %v", err)
	}
	config.QPS = -1
	return config
}

// HTTPClient returns the administrator's client, which neither asks for compression nor
// decompresses.
func (s *Server) HTTPClient() *http.Client {
	s.tb.Helper()
	config := s.Config()
	cert, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		s.tb.Fatalf("read client certificate: %v", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.CAData)
	transport := &http.Transport{
		TLSClientConfig:    &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: roots, MinVersion: tls.VersionTLS12},
		DisableCompression: true,
		ForceAttemptHTTP2:  true,
	}
	s.tb.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}
