package living

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/test/support/changingupstream"
	"github.com/millrace/millrace/test/support/harness"
)

// world is an upstream with the replicas in front of it.
type world struct {
	*changingupstream.Upstream
	name      string
	extension *changingupstream.Extension
	// apiFlags are further flags of the replica by the API.
	apiFlags []string
	fronts   []*front
	builtIns []*changingupstream.Resource
	customs  map[uint64][]*changingupstream.Resource
	mu       struct {
		sync.Mutex
		// compared counts objects, and here answers of replicas themselves.
		compared, here int
		// holds are the revisions at which scripts began that run.
		holds map[uint64]int64
	}
}

// front is a server that clients read at. The upstream itself is one: what it answers shows
// that the oracle is right, and which errors it gives.
type front struct {
	name   string
	server *harness.Server
	// behind is the front whose end it feels, if there is one.
	behind *front
	mu     struct {
		sync.Mutex
		ends []end
	}
}

// end is an end of the front's process, which nobody has asked for.
type end struct {
	at, back time.Time
	said     string
}

// keep starts the process again whenever it ends, until the context does. It waits until the
// upstream of the front is ready.
func (f *front) keep(ctx context.Context, upstream *harness.Server) {
	for server := f.server; ; {
		select {
		case <-ctx.Done():
			return
		case <-server.Done():
		}
		ended := end{at: time.Now(), said: lastLine(server.Output())}
		f.mu.Lock()
		f.mu.ends = append(f.mu.ends, ended)
		f.mu.Unlock()
		ready := harness.Until(settleTimeout, func() error { return errors.Join(upstream.Ready(), ctx.Err()) })
		if ctx.Err() != nil || ready != nil {
			return
		}
		server = server.Restart()
		f.mu.Lock()
		f.mu.ends[len(f.mu.ends)-1].back = time.Now()
		f.mu.Unlock()
	}
}

// ended returns what the process said last that ended at some time of a request, or "".
func (f *front) ended(since time.Time) string {
	if f == nil {
		return ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.mu.ends {
		if e.back.IsZero() || e.back.After(since) {
			return e.at.Format("04:05.000 ") + e.said
		}
	}
	return ""
}

// mayFail says whether a request that began at a time met such an end, its own or that of the
// front behind.
func (f *front) mayFail(since time.Time) bool {
	return f.ended(since) != "" || f.behind.ended(since) != ""
}

// lastLine is the last line of a program's own.
func lastLine(output string) string {
	last := ""
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "millrace: ") || last == "" {
			last = strings.TrimSpace(line)
		}
	}
	return last
}

// control is the name of the upstream as a front.
const control = "upstream"

// newWorld returns a world for the scripts of some seeds, whose upstream is to be started.
func newWorld(t *testing.T, name string, seeds []uint64) *world {
	t.Helper()
	w := &world{
		name: name, extension: changingupstream.StartExtension(t), builtIns: changingupstream.BuiltIn(),
		customs: map[uint64][]*changingupstream.Resource{},
	}
	w.mu.holds = map[uint64]int64{}
	hook := changingupstream.StartWebhook(t)
	for _, seed := range seeds {
		w.customs[seed] = changingupstream.NewResources(seed, hook)
	}
	return w
}

// flags are those of the world's upstream.
func (w *world) flags() []string {
	flags := []string{upstreamGates}
	if w.name == stock {
		flags = append(flags, "--read-path=kubernetes")
	}
	return flags
}

// upstreamGates leaves out what an upstream writes by itself.
const upstreamGates = "--feature-gates=APIServerIdentity=false,UnknownVersionInteroperabilityProxy=false"

// begin has the world begin with an upstream that is ready, and a client of its etcd.
func (w *world) begin(t *testing.T, server *harness.Server, etcd *clientv3.Client) {
	t.Helper()
	all := w.builtIns
	for _, resources := range w.customs {
		all = append(all, resources...)
	}
	w.Upstream = changingupstream.New(t, server, etcd, all...)
	w.add(t, control, server, nil)
}

// replicate starts replicas of some feeds in front of a server. etcdServers is the flag for
// its etcd.
func (w *world) replicate(t *testing.T, server *harness.Server, etcdServers string, feeds map[string]bool) {
	t.Helper()
	var near *harness.Server
	for _, feed := range feedsOf[w.name] {
		if !feeds[feed] && !(feed == "api" && feeds["depth-2"]) {
			continue
		}
		args := []string{"--authorization-webhook-cache-authorized-ttl=" + rightTTL}
		upstream := server
		switch feed {
		case "api":
			args = append(args, w.apiFlags...)
		case "etcd":
			args = append(args, etcdServers, "--authorization-mode=RBAC,SubjectAccessReview")
		case "depth-2":
			upstream = near
		}
		args = append(args, "--kubeconfig="+w.kubeconfig(t, upstream))
		replica := harness.StartReplica(t, upstream, args...)
		if feed == "api" {
			near = replica
		}
		if feeds[feed] {
			w.add(t, feed, replica, upstream)
		}
	}
}

// stock and millrace are the names of worlds by their upstream.
const stock, millrace = "stock", "millrace"

// feedsOf are the replicas of each world.
var feedsOf = map[string][]string{stock: {"api", "etcd", "depth-2"}, millrace: {"millrace"}}

func (w *world) add(t *testing.T, name string, server, upstream *harness.Server) {
	t.Helper()
	f := &front{name: name, server: server}
	if name == "depth-2" {
		for _, other := range w.fronts {
			if other.name == "api" {
				f.behind = other
			}
		}
	}
	w.fronts = append(w.fronts, f)
	if name != control {
		ctx, stop := context.WithCancel(t.Context())
		var keeping sync.WaitGroup
		keeping.Go(func() { f.keep(ctx, upstream) })
		t.Cleanup(func() {
			stop()
			keeping.Wait()
		})
	}
}

// kubeconfig writes a kubeconfig for the account at a server.
func (w *world) kubeconfig(t *testing.T, s *harness.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: s.URL, CertificateAuthorityData: s.Config().CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: w.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, file)
	if err != nil {
		t.Fatal(fmt.Errorf("write kubeconfig: %w", err))
	}
	return file
}
