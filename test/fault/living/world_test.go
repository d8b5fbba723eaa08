package living

import (
	"fmt"
	"path/filepath"
	"testing"

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
	fronts    []*front
	builtIns  []*changingupstream.Resource
	customs   map[uint64][]*changingupstream.Resource
}

// front is a server that clients read at. The upstream itself is one: what it answers shows
// that the oracle is right, and which errors it gives.
type front struct {
	name   string
	server *harness.Server
}

// control is the name of the upstream as a front.
const control = "upstream"

// newWorld starts a world for the scripts of some seeds.
func newWorld(t *testing.T, name string, seeds []uint64, feeds map[string]bool) *world {
	t.Helper()
	flags := []string{"--feature-gates=APIServerIdentity=false,UnknownVersionInteroperabilityProxy=false"}
	if name == stock {
		flags = append(flags, "--read-path=kubernetes")
	}
	w := &world{name: name, extension: changingupstream.StartExtension(t), builtIns: changingupstream.BuiltIn(), customs: map[uint64][]*changingupstream.Resource{}}
	hook := changingupstream.StartWebhook(t)
	all := w.builtIns
	for _, seed := range seeds {
		w.customs[seed] = changingupstream.NewResources(seed, hook)
		all = append(all, w.customs[seed]...)
	}
	w.Upstream = changingupstream.New(t, harness.Start(t, harness.ShortTempDir(t), flags...), all...)
	w.add(t, control, w.Server)
	var near *harness.Server
	for _, feed := range feedsOf[name] {
		if !feeds[feed] && !(feed == "api" && feeds["depth-2"]) {
			continue
		}
		args := []string{"--authorization-webhook-cache-authorized-ttl=" + rightTTL}
		upstream := w.Server
		switch feed {
		case "etcd":
			args = append(args, w.EtcdServers(), "--authorization-mode=RBAC,SubjectAccessReview")
		case "depth-2":
			upstream = near
		}
		args = append(args, "--kubeconfig="+w.kubeconfig(t, upstream))
		replica := harness.StartReplica(t, upstream, args...)
		if feed == "api" {
			near = replica
		}
		if feeds[feed] {
			w.add(t, feed, replica)
		}
	}
	return w
}

// stock and millrace are the names of worlds by their upstream.
const stock, millrace = "stock", "millrace"

// feedsOf are the replicas of each world.
var feedsOf = map[string][]string{stock: {"api", "etcd", "depth-2"}, millrace: {"millrace"}}

func (w *world) add(t *testing.T, name string, server *harness.Server) {
	w.fronts = append(w.fronts, &front{name: name, server: server})
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
