package harness

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

// EtcdVariable is the environment variable that makes the test binary run an etcd instead of the
// tests. Its value is the port and the data directory, separated by a comma.
const EtcdVariable = "MILLRACE_TEST_RUN_ETCD"

// Etcd is an etcd in a process of its own. Tests stop, kill and restart it while a server
// uses it.
type Etcd struct {
	*Process
	// Endpoint is the URL for clients.
	Endpoint string
	// DataDir is the data directory.
	DataDir string

	// spec is the value of EtcdVariable.
	spec string
}

// MaxRequestBytes is the size of the largest write that an etcd of StartEtcd accepts. etcd's
// default is 1.5 MiB; its operators may raise it.
const MaxRequestBytes = 64 << 20

// StartEtcd starts an etcd with a new data directory, and returns at once: servers wait
// for it.
func StartEtcd(tb testing.TB) *Etcd {
	tb.Helper()
	return launchEtcd(tb, FreePort(tb), tb.TempDir())
}

func launchEtcd(tb testing.TB, port int, dataDir string) *Etcd {
	tb.Helper()
	spec := fmt.Sprintf("%d,%s", port, dataDir)
	return &Etcd{Process: start(tb, EtcdVariable+"="+spec), Endpoint: fmt.Sprintf("http://127.0.0.1:%d", port), DataDir: dataDir, spec: spec}
}

// Restart starts an etcd that has ended again, on the same port and data.
func (e *Etcd) Restart() *Etcd {
	e.tb.Helper()
	return &Etcd{Process: start(e.tb, EtcdVariable+"="+e.spec), Endpoint: e.Endpoint, DataDir: e.DataDir, spec: e.spec}
}

// runEtcd runs an etcd in this process until SIGTERM, and returns the exit code.
func runEtcd(spec string) int {
	port, dataDir, _ := strings.Cut(spec, ",")
	number, err := strconv.Atoi(port)
	if err != nil {
		return etcdFailed(err)
	}
	c := embed.NewConfig()
	c.Dir = dataDir
	c.LogLevel = "error"
	c.MaxRequestBytes = MaxRequestBytes
	// Only a loss of power could lose data that is not synced.
	c.UnsafeNoFsync = true
	client := url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(number))}
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls = []url.URL{peer}
	return serveEtcd(c)
}

// serveEtcd serves until SIGTERM, and returns the exit code.
func serveEtcd(c *embed.Config) int {
	server, err := embed.StartEtcd(c)
	if err != nil {
		return etcdFailed(err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	select {
	case <-signals:
		server.Close()
		return 0
	case err := <-server.Err():
		return etcdFailed(err)
	}
}

// EtcdClient returns a client of the server's embedded etcd.
func (s *Server) EtcdClient() *clientv3.Client {
	s.tb.Helper()
	return etcdClient(s.tb, s.EtcdServers())
}

// Client returns a client of the etcd.
func (e *Etcd) Client() *clientv3.Client {
	e.tb.Helper()
	return etcdClient(e.tb, e.EtcdServers())
}

// EtcdServers returns the flag by which a server uses the etcd.
func (e *Etcd) EtcdServers() string { return etcdServersFlag + e.Endpoint }

const etcdServersFlag = "--etcd-servers="

func etcdClient(tb testing.TB, flag string) *clientv3.Client {
	tb.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{strings.TrimPrefix(flag, etcdServersFlag)},
		DialTimeout: 10 * time.Second,
		// The client's own bound is below etcd's.
		MaxCallSendMsgSize: MaxRequestBytes,
	})
	if err != nil {
		tb.Fatalf("open etcd client: %v", err)
	}
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// etcdFailed prints an error and returns the exit code for it.
func etcdFailed(err error) int {
	fmt.Fprintln(os.Stderr, "etcd:", err)
	return 1
}
