package living

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/millrace/millrace/test/support/harness"
)

// balancer passes connections on to a server. Those that are there stay where they are when it
// turns to another server.
type balancer struct {
	address string
	to      atomic.Pointer[harness.Server]
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

// front is a server at the balancer's address.
func (b *balancer) front(s *harness.Server) *harness.Server {
	at := *s
	at.URL = "https://" + b.address
	return &at
}

const (
	// quietSteps come before the server is frozen, of frozenSteps.
	quietSteps, frozenSteps = 5, 30
)

// TestFrozenServer freezes the one of two servers behind a balancer that the replicas have
// connections to, for good. Within the time that is allowed, all watches have what is written at
// the other one, or end.
func TestFrozenServer(t *testing.T) {
	if os.Getenv(disturbedVariable) == "" {
		t.Skipf("takes minutes: %s=1 or make living runs it", disturbedVariable)
	}
	seed := harness.Seed(t)
	t.Logf("repeat with %s=%d", harness.SeedVariable, seed)
	w := newWorld(t, stock, []uint64{seed})
	etcd := harness.StartEtcd(t)
	flags := append(w.flags(), etcd.EtcdServers())
	frozen := harness.Start(t, harness.ShortTempDir(t), flags...)
	dir := harness.ShortTempDir(t)
	if err := os.CopyFS(filepath.Join(dir, "pki"), os.DirFS(filepath.Join(frozen.DataDir, "pki"))); err != nil {
		t.Fatal(err)
	}
	other := harness.Start(t, dir, flags...)
	w.begin(t, other, etcd.Client())
	b := startBalancer(t, frozen)
	w.replicate(t, b.front(frozen), etcd.EtcdServers(), map[string]bool{"api": true, "depth-2": true})
	s := w.script(seed)
	var once sync.Once
	s.Disturb = func(context.Context, *rand.Rand) error {
		if steps, _ := s.Counts(); steps >= quietSteps {
			once.Do(func() {
				s.Outages.Begin() // without an end
				b.to.Store(other)
				frozen.Signal(syscall.SIGSTOP)
			})
		}
		return nil
	}
	w.runSteps(t, s, frozenSteps)
	if b.to.Load() != other {
		t.Error("the script has not frozen the server")
	}
	w.floor(t, 1)
}
