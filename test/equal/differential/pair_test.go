package differential

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/test/support/harness"
)

// noLeases disables the servers' identity leases, which write to etcd every few seconds.
const noLeases = "--feature-gates=APIServerIdentity=false,UnknownVersionInteroperabilityProxy=false"

// featureGates enables what alpha and beta types need, and shards.
const featureGates = noLeases + ",GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true,EvictionRequestAPI=true,ShardedListAndWatch=true"

// testsCompact keeps the servers from compacting etcd, after which their caches differ for up
// to fifteen seconds. The tests compact it where they expect that.
const testsCompact = "--etcd-compaction-interval=1h"

// everything enables all versions of the API.
var everything = []string{"--runtime-config=api/all=true", featureGates, testsCompact}

// side is one of the two servers with its clients.
type side struct {
	*harness.Server
	clients map[identity]*http.Client
}

// identity selects the user and the connection of a request.
type identity string

const (
	admin     identity = "admin"
	http1     identity = "admin-http1"
	anonymous identity = "anonymous"
)

// pair is both read paths over one etcd.
type pair struct {
	tb testing.TB
	// ours reads from the byte cache, theirs is the server with Kubernetes' read path.
	ours, theirs *side
	etcd         *clientv3.Client
	// older stores some objects as an older version would. Nil: none.
	older *olderObjects
	// sameTokens is set if continue tokens must be equal byte for byte.
	sameTokens bool
	// oursPassesOn says that ours sends requests on to theirs, and so has its faults.
	oursPassesOn bool
	// ignoresShards says that shard selectors have another meaning for the servers than here.
	ignoresShards bool
	// plainWatchLists says that ours takes theirs for a version that compresses no watch-lists.
	plainWatchLists bool
	// namespaced contains the paths of lists over all namespaces.
	namespaced map[string]bool
	// compared counts comparisons, of requests and watches, and mismatched those that failed.
	// repeated counts requests that were sent again.
	compared, mismatched, repeated atomic.Int64
}

func startPair(tb testing.TB) *pair {
	tb.Helper()
	return startPairWith(tb, everything...)
}

// startPairWith starts two servers with the same flags.
func startPairWith(tb testing.TB, flags ...string) *pair {
	tb.Helper()
	ours := harness.Start(tb, harness.ShortTempDir(tb), concat(flags, "--read-path=millrace")...)
	theirs := startStock(tb, ours, flags)
	return &pair{tb: tb, ours: newSide(tb, ours), theirs: newSide(tb, theirs), etcd: ours.EtcdClient(), namespaced: map[string]bool{}}
}

// alone returns a pair of one server with itself, to fill it and to start replicas of it.
func alone(tb testing.TB, s *harness.Server, etcd *clientv3.Client) *pair {
	one := newSide(tb, s)
	return &pair{tb: tb, ours: one, theirs: one, etcd: etcd, namespaced: map[string]bool{}}
}

// concat returns flags and more of them.
func concat(flags []string, more ...string) []string { return slices.Concat(flags, more) }

// startStock starts a server with Kubernetes' read path over the etcd of the first one: the
// kube-apiserver that the environment names, or our own program.
func startStock(tb testing.TB, first *harness.Server, flags []string) *harness.Server {
	tb.Helper()
	if program := harness.Upstream(); program != "" {
		return harness.StartUpstream(tb, program, first, concat(flags, unannounced...)...)
	}
	return startBeside(tb, first, concat(flags, "--read-path=kubernetes")...)
}

// unannounced keeps a server beside another one from writing endpoints.
var unannounced = []string{"--endpoint-reconciler-type=none", "--advertise-address=127.0.0.1"}

// startBeside starts a server over the etcd of the first one.
func startBeside(tb testing.TB, first *harness.Server, flags ...string) *harness.Server {
	tb.Helper()
	return harness.Start(tb, harness.ShortTempDir(tb), concat(unannounced, concat(flags, first.EtcdServers())...)...)
}

func newSide(tb testing.TB, s *harness.Server) *side {
	h2 := s.HTTPClient()
	h1 := derive(tb, h2, func(t *http.Transport) {
		t.ForceAttemptHTTP2 = false
		t.TLSClientConfig.NextProtos = []string{"http/1.1"}
		t.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	})
	nobody := derive(tb, h2, func(t *http.Transport) { t.TLSClientConfig.Certificates = nil })
	clients := map[identity]*http.Client{admin: h2, http1: h1, anonymous: nobody}
	for _, c := range clients {
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	return &side{Server: s, clients: clients}
}

// quiet returns a client configuration that does not log warnings.
func (s *side) quiet() *rest.Config {
	config := s.Config()
	config.WarningHandler = rest.NoWarnings{}
	return config
}

func derive(tb testing.TB, from *http.Client, change func(*http.Transport)) *http.Client {
	transport := from.Transport.(*http.Transport).Clone()
	change(transport)
	tb.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// exactly returns a pair that compares continue tokens byte for byte.
func (p *pair) exactly() *pair {
	return &pair{tb: p.tb, ours: p.ours, theirs: p.theirs, etcd: p.etcd, sameTokens: true}
}

const etcdTimeout = 10 * time.Second

// revision returns etcd's current revision.
func (p *pair) revision() int64 {
	ctx, cancel := context.WithTimeout(context.Background(), etcdTimeout)
	defer cancel()
	resp, err := p.etcd.Get(ctx, "/", clientv3.WithCountOnly())
	if err != nil {
		p.tb.Errorf("read revision: %v", err)
		return 0
	}
	return resp.Header.Revision
}

const (
	quiet        = 3 * time.Second
	quietTimeout = time.Minute
)

// settle waits until there have been no writes for a while, or fails the test.
func (p *pair) settle() {
	p.tb.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.Now().Add(quietTimeout)
	last, since := p.revision(), time.Now()
	for time.Since(since) < quiet {
		if time.Now().After(deadline) {
			p.tb.Fatalf("etcd still changes after %v, at revision %d", quietTimeout, last)
		}
		<-ticker.C
		if now := p.revision(); now != last {
			last, since = now, time.Now()
		}
	}
}

// until waits for a condition that the two servers reach at different times.
func (p *pair) until(what string, condition func() error) {
	p.tb.Helper()
	if err := harness.Until(quietTimeout, condition); err != nil {
		p.tb.Fatalf("wait for %s: %v", what, err)
	}
}

// catchUp brings both caches up to etcd's revision, by a consistent read.
func (p *pair) catchUp(listPath string) error {
	for _, s := range []*side{p.ours, p.theirs} {
		a, err := s.do(request{path: listPath, query: "limit=1"})
		if err != nil {
			return err
		}
		if a.status != http.StatusOK {
			return fmt.Errorf("list %s at %s: status %d: %.200s", listPath, s.URL, a.status, a.body)
		}
	}
	return nil
}
