package harness

import (
	"encoding/json"
	"fmt"
	"net/url"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
)

// memberVariable is the environment variable that makes the test binary run a member of an etcd
// cluster. Its value is a Member in JSON.
const memberVariable = "MILLRACE_TEST_RUN_ETCD_MEMBER"

// Member is a member of an etcd cluster, in a process of its own.
type Member struct {
	Name    string
	DataDir string
	// ClientPort and PeerPort are where the member listens, on the loopback address.
	ClientPort, PeerPort int
	// Peers has the URLs at which the members reach each other, by name. A URL may lead to a proxy.
	Peers map[string]string
	// Joins is set if the cluster exists, and the member has been added to it.
	Joins bool
}

// Endpoint returns the URL for clients.
func (m *Member) Endpoint() string { return fmt.Sprintf("http://127.0.0.1:%d", m.ClientPort) }

// Start starts the member, and returns at once. A member that has ended may be started again.
func (m *Member) Start(tb testing.TB) *Process {
	tb.Helper()
	spec, err := json.Marshal(m)
	if err != nil {
		tb.Fatalf("describe member: %v", err)
	}
	return start(tb, memberVariable+"="+string(spec))
}

// The log of Raft is cut after snapshotEntries, so that a member that was away sometimes needs a
// snapshot.
const (
	snapshotEntries = 1000
	catchUpEntries  = 200
)

// runMember runs a member in this process until SIGTERM, and returns the exit code.
func runMember(spec string) int {
	var m Member
	if err := json.Unmarshal([]byte(spec), &m); err != nil {
		return etcdFailed(err)
	}
	c := embed.NewConfig()
	c.Name, c.Dir, c.LogLevel = m.Name, m.DataDir, "error"
	// Only a loss of power could lose data that is not synced.
	c.UnsafeNoFsync = true
	c.SnapshotCount, c.SnapshotCatchUpEntries = snapshotEntries, catchUpEntries
	peer, err := url.Parse(m.Peers[m.Name])
	if err != nil {
		return etcdFailed(err)
	}
	client := url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", m.ClientPort)}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls = []url.URL{{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", m.PeerPort)}}
	c.AdvertisePeerUrls = []url.URL{*peer}
	c.InitialCluster = ""
	for name, address := range m.Peers {
		c.InitialCluster += fmt.Sprintf(",%s=%s", name, address)
	}
	c.InitialCluster = c.InitialCluster[1:]
	if m.Joins {
		c.ClusterState = embed.ClusterStateFlagExisting
	}
	return serveEtcd(c)
}
