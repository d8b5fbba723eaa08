package many

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/test/support/harness"
)

// healthPeriod is the time between two health checks of a server.
const healthPeriod = 200 * time.Millisecond

// balancer brings TCP connections to servers whose /readyz says ok, one after the other.
type balancer struct {
	net.Listener
	next atomic.Int64
	mu   struct {
		sync.Mutex
		// healthy has whether a server takes connections, by address.
		healthy map[string]bool
		order   []string
		conns   map[net.Conn]bool
	}
}

func newBalancer(t *testing.T, servers ...*harness.Server) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	b := &balancer{Listener: listener}
	b.mu.healthy, b.mu.conns = map[string]bool{}, map[net.Conn]bool{}
	ctx, stop := context.WithCancel(context.Background())
	var checks sync.WaitGroup
	for _, s := range servers {
		address := s.URL[len("https://"):]
		b.mu.order = append(b.mu.order, address)
		b.mu.healthy[address] = true
		client := s.HTTPClient()
		client.Timeout = 2 * time.Second
		checks.Go(func() { b.checkHealth(ctx, client, address) })
	}
	go b.serve()
	t.Cleanup(func() {
		stop()
		_ = listener.Close()
		b.mu.Lock()
		for c := range b.mu.conns {
			_ = c.Close()
		}
		b.mu.Unlock()
		checks.Wait()
	})
	return b
}

// url is where clients find the servers.
func (b *balancer) url() string { return "https://" + b.Addr().String() }

func (b *balancer) checkHealth(ctx context.Context, client *http.Client, address string) {
	ticker := time.NewTicker(healthPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		resp, err := client.Get("https://" + address + "/readyz")
		healthy := err == nil && resp.StatusCode == http.StatusOK
		if err == nil {
			_ = resp.Body.Close()
		}
		b.mu.Lock()
		b.mu.healthy[address] = healthy
		b.mu.Unlock()
	}
}

func (b *balancer) serve() {
	for {
		client, err := b.Accept()
		if err != nil {
			return
		}
		go b.connect(client)
	}
}

// connect finds a server. One that refuses is left out.
func (b *balancer) connect(client net.Conn) {
	defer client.Close()
	for _, address := range b.candidates() {
		server, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			continue
		}
		defer server.Close()
		b.track(client, true)
		defer b.track(client, false)
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(client, server)
		return
	}
}

func (b *balancer) track(c net.Conn, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.mu.conns, c); open {
		b.mu.conns[c] = true
	}
}

// candidates are the servers in the order in which they are tried: in turn, and those that
// are not ready last.
func (b *balancer) candidates() (order []string) {
	first := int(b.next.Add(1))
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, wanted := range []bool{true, false} {
		for i := range b.mu.order {
			if address := b.mu.order[(first+i)%len(b.mu.order)]; b.mu.healthy[address] == wanted {
				order = append(order, address)
			}
		}
	}
	return order
}
