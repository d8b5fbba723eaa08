package living

import (
	"context"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/millrace/millrace/test/support/changingupstream"
	"github.com/millrace/millrace/test/support/harness"
)

// balancer passes connections on to a server. Those that are there stay where they are when it
// turns to another server, unless they are cut.
type balancer struct {
	address string
	to      atomic.Pointer[harness.Server]
	mu      struct {
		sync.Mutex
		open map[net.Conn]bool
	}
}

func startBalancer(t *testing.T, to *harness.Server) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	b := &balancer{address: listener.Addr().String()}
	b.to.Store(to)
	b.mu.open = map[net.Conn]bool{}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go b.pass(near)
		}
	}()
	return b
}

// pass passes one connection on.
func (b *balancer) pass(near net.Conn) {
	b.note(near, true)
	defer b.note(near, false)
	defer near.Close()
	far, err := net.Dial("tcp", strings.TrimPrefix(b.to.Load().URL, "https://"))
	if err != nil {
		return
	}
	defer far.Close()
	go func() {
		_, _ = io.Copy(far, near)
		_ = far.Close()
	}()
	_, _ = io.Copy(near, far)
}

func (b *balancer) note(near net.Conn, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if open {
		b.mu.open[near] = true
	} else {
		delete(b.mu.open, near)
	}
}

// connections are those that are open.
func (b *balancer) connections() map[net.Conn]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.mu.open)
}

// cut closes all connections but some.
func (b *balancer) cut(but map[net.Conn]bool) {
	for near := range b.connections() {
		if !but[near] {
			_ = near.Close()
		}
	}
}

// front is a server at the balancer's address.
func (b *balancer) front(s *harness.Server) *harness.Server {
	at := *s
	at.URL = "https://" + b.address
	return &at
}

const (
	// quietSteps come before the server is frozen or stands still, of frozenSteps or stillSteps.
	quietSteps, frozenSteps, stillSteps = 5, 30, 55
)

// pair are two servers over one etcd, of which one is in trouble later.
type pair struct{ troubled, other *harness.Server }

// startPair starts both. Those in front use the same certificates for them.
func (w *world) startPair(t *testing.T, etcd *harness.Etcd, etcdOfTroubled string) pair {
	t.Helper()
	troubled := harness.Start(t, harness.ShortTempDir(t), append(w.flags(), etcdOfTroubled)...)
	dir := harness.ShortTempDir(t)
	if err := os.CopyFS(filepath.Join(dir, "pki"), os.DirFS(filepath.Join(troubled.DataDir, "pki"))); err != nil {
		t.Fatal(err)
	}
	other := harness.Start(t, dir, append(w.flags(), etcd.EtcdServers())...)
	w.begin(t, other, etcd.Client())
	return pair{troubled, other}
}

// trouble has trouble begin once in a script, and never end.
func trouble(s *changingupstream.Script, begin func()) {
	var once sync.Once
	s.Disturb = func(context.Context, *rand.Rand) error {
		if steps, _ := s.Counts(); steps >= quietSteps {
			once.Do(func() {
				s.Outages.Start() // without an end
				begin()
			})
		}
		return nil
	}
}

// longSeed returns the seed of a test that takes minutes. It skips the test unless it is asked for.
func longSeed(t *testing.T) uint64 {
	t.Helper()
	if os.Getenv(disturbedVariable) == "" {
		t.Skipf("takes minutes: %s=1 or make living runs it", disturbedVariable)
	}
	seed := harness.Seed(t)
	t.Logf("repeat with %s=%d", harness.SeedVariable, seed)
	return seed
}

// TestFrozenServer freezes the one of two servers behind a balancer that the replicas have
// connections to, for good. Within the time that is allowed, all watches have what is written at
// the other one, or end.
func TestFrozenServer(t *testing.T) {
	seed := longSeed(t)
	w := newWorld(t, stock, []uint64{seed})
	etcd := harness.StartEtcd(t)
	servers := w.startPair(t, etcd, etcd.EtcdServers())
	b := startBalancer(t, servers.troubled)
	w.replicate(t, b.front(servers.troubled), etcd.EtcdServers(), map[string]bool{"api": true, "depth-2": true})
	s := w.script(seed)
	trouble(s, func() {
		b.to.Store(servers.other)
		servers.troubled.Signal(syscall.SIGSTOP)
	})
	w.runSteps(t, s, frozenSteps)
	if b.to.Load() != servers.other {
		t.Error("the script has not frozen the server")
	}
	w.floor(t, 1)
}

// TestStillServer has the watch caches of that server stand still, while it answers, and sends
// bookmarks: its etcd tells it of nothing any more. Only the connections of the replica itself stay
// with it. Nothing but objects is changed, because such a server has old definitions and rights, too.
func TestStillServer(t *testing.T) {
	seed := longSeed(t)
	w := newWorld(t, stock, []uint64{seed})
	etcd := harness.StartEtcd(t)
	proxy := harness.StartEtcdProxy(t, etcd)
	servers := w.startPair(t, etcd, proxy.EtcdServers())
	b := startBalancer(t, servers.troubled)
	w.replicate(t, b.front(servers.troubled), etcd.EtcdServers(), map[string]bool{"api": true})
	own := b.connections()
	s := w.script(seed)
	s.Unchanged = true
	trouble(s, func() {
		b.to.Store(servers.other)
		proxy.Hold()
		b.cut(own)
	})
	w.runSteps(t, s, stillSteps)
	if b.to.Load() != servers.other {
		t.Error("the server has not stood still")
	}
	w.floor(t, 1)
}
