package injection

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/internal/conn/datadir"
	"github.com/millrace/millrace/test/support/harness"
)

// shape is what a cluster is made of.
type shape struct {
	members int
	// servers are programs: "" for `millrace serve`, or the file of a kube-apiserver.
	servers []string
	// replicas are the replicas of each depth. The first of a depth follows the API, and the
	// second of the first depth etcd.
	replicas []int
	// fleet says that the replicas are a tree at which a fleet reads: all of them follow the
	// API with what the fleet reads, keep checkpoints, and reach any of the depth before.
	fleet bool
	// serverArgs are further arguments of servers. startCluster sets them.
	serverArgs []string
}

// cluster is an etcd cluster, servers over it, and replicas in front of these, each in a
// process of its own, with a network between them.
type cluster struct {
	tb      testing.TB
	shape   shape
	dir     string
	network *network
	// members, servers and replicas are in the order in which they are started.
	members, servers, replicas []*node
	// configs are the configurations of the members, and clients reach each past the network.
	configs []*harness.Member
	clients []*clientv3.Client
	// ports are where nodes listen.
	ports map[string]int
	// log is the audit log of the server, if a fleet reads.
	log *rootLog
}

// token is that of an administrator at all servers. A token can be handed on by any number of
// replicas.
const token = "fault-injection"

// startCluster starts all processes, and waits until they are ready. The caller calls end.
func startCluster(tb testing.TB, s shape) *cluster {
	tb.Helper()
	c := &cluster{tb: tb, shape: s, dir: harness.ShortTempDir(tb), network: newNetwork(), ports: map[string]int{}}
	c.write("tokens.csv", token+",admin,admin,system:masters\n")
	if s.fleet {
		c.log, c.shape.serverArgs = c.auditFlags()
	}
	c.addMembers(s.members)
	c.startAll(c.members)
	c.makeCredentials()
	for i, program := range s.servers {
		c.addServer(i, program)
	}
	c.startAll(c.servers)
	for depth, count := range s.replicas {
		first := len(c.replicas)
		for i := range count {
			c.addReplica(depth+1, i)
		}
		c.startAll(c.replicas[first:])
	}
	return c
}

// end ends all processes.
func (c *cluster) end() {
	for _, n := range c.nodes() {
		n.end()
	}
}

func (c *cluster) nodes() []*node {
	return slices.Concat(c.members, c.servers, c.replicas)
}

// readyTimeout is generous, since machines are shared.
const readyTimeout = 3 * time.Minute

// startAll starts some nodes and waits until they are ready.
func (c *cluster) startAll(nodes []*node) {
	c.tb.Helper()
	for _, n := range nodes {
		n.launch(nil)
	}
	if err := awaitReady(nodes, readyTimeout); err != nil {
		defer c.end()
		c.tb.Fatal(err)
	}
}

// maxEnds is how often a process may end by itself in a run.
const maxEnds = 5

// awaitReady waits until nodes are ready.
func awaitReady(nodes []*node, timeout time.Duration) error {
	for _, n := range nodes {
		err := harness.Until(timeout, func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			if n.ends() >= maxEnds { // it always will
				return nil
			}
			return n.ready(ctx)
		})
		if err == nil && n.ends() >= maxEnds {
			err = errors.New("it ends again and again")
		}
		if err != nil {
			return fmt.Errorf("%s is not ready after %v: %w\n%s", n.name, timeout, err, n.output())
		}
	}
	return nil
}

// write writes a file of the cluster, and returns its name.
func (c *cluster) write(name, content string) string {
	c.tb.Helper()
	file := filepath.Join(c.dir, name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		c.tb.Fatal(err)
	}
	return file
}

// place is where a node listens, from now on.
func (c *cluster) place(name string) place {
	if c.ports[name] == 0 {
		c.ports[name] = harness.FreePort(c.tb)
	}
	return place{name, c.ports[name]}
}

// dial returns the port at which a node reaches one of others, over the network. In a tree
// that is the first one that answers.
func (c *cluster) dial(from string, to ...string) int {
	c.tb.Helper()
	p := &proxy{network: c.network, from: from, inOrder: c.shape.fleet}
	for _, name := range to {
		p.places = append(p.places, c.place(name))
	}
	return p.listen(c.tb)
}

// etcdServers is the flag by which a node uses the members, over the network.
func (c *cluster) etcdServers(from string) string {
	c.tb.Helper()
	var urls []string
	for _, m := range c.members {
		urls = append(urls, fmt.Sprintf("http://127.0.0.1:%d", c.dial(from, m.name)))
	}
	return "--etcd-servers=" + strings.Join(urls, ",")
}

func (c *cluster) addMembers(count int) {
	c.tb.Helper()
	peers := map[string]string{}
	for i := range count {
		m := &harness.Member{Name: fmt.Sprintf("etcd-%d", i+1), ClientPort: harness.FreePort(c.tb), PeerPort: harness.FreePort(c.tb), Peers: peers}
		m.DataDir, c.ports[m.Name] = filepath.Join(c.dir, m.Name), m.ClientPort
		behind := &proxy{network: c.network, peers: true, places: []place{{m.Name, m.PeerPort}}}
		peers[m.Name] = fmt.Sprintf("http://127.0.0.1:%d", behind.listen(c.tb))
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{m.Endpoint()}, DialTimeout: 2 * time.Second, Logger: zap.NewNop()})
		if err != nil {
			c.tb.Fatal(err)
		}
		c.tb.Cleanup(func() { _ = client.Close() })
		c.configs, c.clients = append(c.configs, m), append(c.clients, client)
		c.members = append(c.members, &node{
			name: m.Name, start: func() *harness.Process { return m.Start(c.tb) },
			ready: func(ctx context.Context) error { // a quorum answers
				_, err := client.Get(ctx, "any")
				return err
			},
		})
	}
}

// pki is the directory of the credentials of all servers.
func (c *cluster) pki() string { return filepath.Join(c.dir, "credentials", "pki") }

// makeCredentials makes what all servers have in common.
func (c *cluster) makeCredentials() {
	c.tb.Helper()
	dir, err := datadir.Open(datadir.Config{Path: filepath.Dir(c.pki())})
	if err != nil {
		c.tb.Fatal(err)
	}
	_, err = dir.EnsureCredentials(datadir.Hosts{ServiceIPs: []net.IP{net.IPv4(10, 96, 0, 1)}})
	if err = errors.Join(err, dir.Close()); err != nil {
		c.tb.Fatal(err)
	}
}

func (c *cluster) addServer(i int, program string) {
	c.tb.Helper()
	name := fmt.Sprintf("server-%d", i+1)
	dir := filepath.Join(c.dir, name)
	own := []string{c.etcdServers(name), fmt.Sprintf("--secure-port=%d", c.place(name).port), "--token-auth-file=" + filepath.Join(c.dir, "tokens.csv")}
	own = append(own, c.shape.serverArgs...)
	args := append([]string{"serve", "--bind-address=127.0.0.1", "--data-dir=" + dir}, own...)
	if err := errors.Join(os.Mkdir(dir, 0o700), os.CopyFS(filepath.Join(dir, "pki"), os.DirFS(c.pki()))); err != nil {
		c.tb.Fatal(err)
	}
	if program != "" {
		args = append(harness.UpstreamFlags(c.pki(), dir), own...)
		args = append(args, "--endpoint-reconciler-type=none", "--advertise-address=127.0.0.1")
	}
	c.servers = append(c.servers, c.serving(name, func() *harness.Process {
		if program != "" {
			return harness.Program(c.tb, program, args...)
		}
		return harness.Command(c.tb, args...)
	}))
}

// addReplica adds a replica. The first one of the first depth is in front of all servers, as
// behind a balancer, and the second one in front of one of them. Others are each in front of
// the replica of the same number and the depth before, or behind all of that depth in a tree.
func (c *cluster) addReplica(depth, i int) {
	c.tb.Helper()
	name := replicaName(depth, i)
	dir := filepath.Join(c.dir, name)
	var upstreams []string
	switch {
	case depth > 1 && c.shape.fleet:
		upstreams = c.parents(depth, i)
	case depth > 1:
		upstreams = []string{replicaName(depth-1, i)}
	case i == 0:
		for _, s := range c.servers {
			upstreams = append(upstreams, s.name)
		}
	default:
		upstreams = []string{c.servers[i%len(c.servers)].name}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		c.tb.Fatal(err)
	}
	args := []string{
		"replica", "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.place(name).port), "--cert-dir=" + filepath.Join(dir, "certificates"),
		"--kubeconfig=" + c.kubeconfig(name, c.dial(name, upstreams...)), "--follow=leases.coordination.k8s.io",
		"--tls-cert-file=" + filepath.Join(c.pki(), "apiserver.crt"), "--tls-private-key-file=" + filepath.Join(c.pki(), "apiserver.key"),
	}
	if c.shape.fleet {
		args = append(args, "--follow="+followed())
	}
	switch {
	case depth == 1 && i == 1 && !c.shape.fleet:
		args = append(args, c.etcdServers(name))
	case depth == 1 || c.shape.fleet: // its restarts begin with a checkpoint
		args = append(args, "--data-dir="+filepath.Join(dir, "data"), "--checkpoint-interval=2s")
	}
	c.replicas = append(c.replicas, c.serving(name, func() *harness.Process { return harness.Command(c.tb, args...) }))
}

// parents are the replicas of the depth before one, its own in the tree first.
func (c *cluster) parents(depth, i int) (names []string) {
	count := c.shape.replicas[depth-2]
	own := i * count / c.shape.replicas[depth-1]
	for j := range count {
		names = append(names, replicaName(depth-1, (own+j)%count))
	}
	return names
}

// replicaName is replica-1a for the first one of the first depth.
func replicaName(depth, i int) string { return fmt.Sprintf("replica-%d%c", depth, 'a'+i) }

// serving is a node with the API of Kubernetes.
func (c *cluster) serving(name string, start func() *harness.Process) *node {
	port := c.place(name).port
	return &node{name: name, start: start, ready: func(ctx context.Context) error {
		client, err := rest.HTTPClientFor(c.config(port))
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/readyz", port), nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	}}
}

// config leads an administrator to a port.
func (c *cluster) config(port int) *rest.Config {
	return &rest.Config{
		Host: fmt.Sprintf("https://127.0.0.1:%d", port), BearerToken: token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(c.pki(), "ca.crt")},
	}
}

// endpoints are the configurations of clients of all servers and replicas.
func (c *cluster) endpoints() (all []*rest.Config) {
	for _, n := range slices.Concat(c.servers, c.replicas) {
		all = append(all, c.config(c.ports[n.name]))
	}
	return all
}

// kubeconfig writes the kubeconfig of a replica, which leads to a port.
func (c *cluster) kubeconfig(name string, port int) string {
	c.tb.Helper()
	file := filepath.Join(c.dir, name+".kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server: fmt.Sprintf("https://127.0.0.1:%d", port), CertificateAuthority: filepath.Join(c.pki(), "ca.crt"),
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {Token: token}},
		Contexts:  map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "x",
	}, file)
	if err != nil {
		c.tb.Fatal(err)
	}
	return file
}

// memory is the resident memory of all processes, and of this one, in MiB.
func (c *cluster) memory() int64 {
	total := residentBytes(os.Getpid())
	for _, n := range c.nodes() {
		total += n.memory()
	}
	return total >> 20
}

// cast are the names of all processes.
func (c *cluster) cast() *cast {
	names := func(nodes []*node) (all []string) {
		for _, n := range nodes {
			all = append(all, n.name)
		}
		return all
	}
	return &cast{names(c.members), names(c.servers), names(c.replicas)}
}
