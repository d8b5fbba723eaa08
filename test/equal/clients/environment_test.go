package clients

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/test/support/harness"
)

// token belongs to an administrator, weakToken to a user without permissions.
const (
	token     = "administrator-token"
	weakToken = "weak-token"
)

// oldVersions is the number of revisions that are compacted before a server
// starts, so that no server has them.
const oldVersions = 20

const listsNamespace = "lists"

// environment is our server and a stock server over the same etcd.
type environment struct {
	ours, stock *side
}

// side is one of the two servers.
type side struct {
	*harness.Server
	path string
}

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	etcd := harness.StartEtcd(t)
	compact(t, etcd)
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	lines := fmt.Sprintf("%s,administrator,administrator,\"system:masters\"\n%s,weak,weak\n", token, weakToken)
	must(t, os.WriteFile(tokens, []byte(lines), 0o600))
	start := func(path string) *side {
		return &side{path: path, Server: harness.Launch(t, filepath.Join(harness.ShortTempDir(t), "d"),
			"--etcd-servers="+etcd.Endpoint, "--read-path="+path, "--token-auth-file="+tokens, "--permit-port-sharing")}
	}
	e := &environment{ours: start("millrace"), stock: start("kubernetes")}
	e.ours.WaitReady()
	e.stock.WaitReady()
	e.fill(t)
	return e
}

// compact makes some revisions without objects and compacts them.
func compact(t *testing.T, etcd *harness.Etcd) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd.Endpoint}, DialTimeout: time.Minute})
	must(t, err)
	defer client.Close()
	for range oldVersions {
		_, err := client.Put(t.Context(), "before", "")
		must(t, err)
	}
	_, err = client.Compact(t.Context(), oldVersions)
	must(t, err)
}

// fill creates the objects that scripts list, and a namespace for each script
// on each server.
func (e *environment) fill(t *testing.T) {
	t.Helper()
	api, err := kubernetes.NewForConfig(e.ours.Config())
	must(t, err)
	namespaces := []string{listsNamespace}
	for _, c := range clients() {
		namespaces = append(namespaces, e.ours.namespace(c), e.stock.namespace(c))
	}
	for _, name := range namespaces {
		_, err := api.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must(t, err)
	}
	random := rand.New(rand.NewPCG(harness.Seed(t), 0))
	var group sync.WaitGroup
	for n := range 401 {
		name, size := fmt.Sprintf("item-%03d", n), 6<<10
		if n == 400 {
			name, size = "large", 900<<10
		}
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"text": text(random, size)}}
		group.Go(func() {
			if _, err := api.CoreV1().ConfigMaps(listsNamespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

// text returns text that compresses about as well as text that people write.
func text(random *rand.Rand, size int) string {
	var b strings.Builder
	for b.Len() < size {
		fmt.Fprintf(&b, "%x ", random.IntN(2000)*7919)
	}
	return b.String()
}

// namespace returns the namespace in which a client's script writes.
func (s *side) namespace(c client) string { return c.name + "-" + s.path }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// replace lets all clients use a server while it is replaced: a successor
// starts on the same port, and the old server is told to end. It returns the
// outcomes of the scripts by client.
func (s *side) replace(t *testing.T, args ...string) map[string]outcome {
	t.Helper()
	running := map[string]*script{}
	for _, c := range clients() {
		if c.missing() == nil {
			running[c.name] = s.start(t, c, "restart")
		}
	}
	for _, r := range running {
		<-r.ready
	}
	before := s.Server
	s.Server = before.Successor(args...)
	must(t, before.Terminate())
	all := map[string]outcome{}
	for _, r := range running {
		fmt.Fprintln(r.proceed)
	}
	for name, r := range running {
		all[name] = r.end()
	}
	return all
}
