package replica

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/test/support/harness"
)

const (
	// absence is how long an upstream is away.
	absence = time.Minute
	// noticed is how long a replica may take until it says that it is cut off: it asks a
	// silent connection for a sign of life after 30 s, and waits 15 s for it.
	noticed = 50 * time.Second
	// returned is how long a replica may take to follow an upstream that is back.
	returned = 30 * time.Second
	// kept has rights outlast an absence.
	kept = "--authorization-webhook-cache-authorized-ttl=10m"
)

func parseInt(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }

func openEtcd(t *testing.T, etcd *harness.Etcd) *clientv3.Client {
	t.Helper()
	client := must(clientv3.New(clientv3.Config{Endpoints: []string{etcd.Endpoint}, DialTimeout: 10 * time.Second}))(t)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// cluster is an etcd, a stock server over it, and a replica.
type cluster struct {
	t        *testing.T
	source   string
	etcd     *harness.Etcd
	client   *clientv3.Client
	upstream *harness.Server
	log      *auditLog
	replica  *harness.Server
}

func startCluster(t *testing.T, source string, flags ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, source: source, etcd: harness.StartEtcd(t)}
	c.upstream, c.log = startAudited(t, "--etcd-servers="+c.etcd.Endpoint)
	c.client = openEtcd(t, c.etcd)
	c.replica = harness.StartReplica(t, c.upstream, c.flags(flags...)...)
	// From now on the replica knows that the administrator may read, and that it may itself
	// impersonate.
	for _, path := range []string{zero, unset, "/api/v1/namespaces/default/secrets"} {
		if status, _ := c.status(path); status != http.StatusOK {
			t.Fatalf("%s got %d", path, status)
		}
	}
	return c
}

func (c *cluster) flags(more ...string) []string {
	if c.source == "etcd" {
		return append(more, kept, "--etcd-servers="+c.etcd.Endpoint)
	}
	return append(more, kept, "--follow=configmaps,pods")
}

// status sends a GET to the replica, and returns the status and the header that says that
// the replica is cut off.
func (c *cluster) status(path string) (status int, cutOff string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 70*time.Second)
	defer cancel()
	req := must(http.NewRequestWithContext(ctx, http.MethodGet, c.replica.URL+path, nil))(c.t)
	resp, err := c.replica.HTTPClient().Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("X-Millrace-Cut-Off-Since")
}

const unset, zero = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/configmaps?resourceVersion=0"

// away checks what the replica answers while its source is away, until the time is over.
func (c *cluster) away(name string) {
	c.t.Helper()
	began, said := time.Now(), false
	for time.Since(began) < absence {
		if status, cutOff := c.status(zero); status != http.StatusOK {
			c.t.Errorf("%s: resourceVersion=0 got %d %s", name, status, cutOff)
		} else if cutOff != "" && !said {
			said = true
			c.t.Logf("%s: said after %v", name, time.Since(began).Round(time.Second))
		}
		pauseFor(c.t.Context(), time.Second)
	}
	if !said {
		c.t.Errorf("%s: no answer said within %v that the replica is cut off", name, absence)
	}
	if status, _ := c.status("/readyz"); status == http.StatusOK {
		c.t.Errorf("%s: /readyz says ok", name)
	}
	if status, _ := c.status("/readyz?exclude=millrace-feed"); status != http.StatusOK {
		c.t.Errorf("%s: /readyz without the feed says %d", name, status)
	}
	if status, cutOff := c.status(unset); status != http.StatusGatewayTimeout && status != http.StatusServiceUnavailable {
		c.t.Errorf("%s: a consistent read got %d %s", name, status, cutOff)
	}
}

// back waits until the replica follows again, and bounds what that cost the upstream.
func (c *cluster) back(name string, position, maxLoads int) {
	c.t.Helper()
	began := time.Now()
	answered := func(path string) func() error {
		return func() error {
			if status, cutOff := c.status(path); status != http.StatusOK || cutOff != "" {
				return notYet("%d %s", status, cutOff)
			}
			return nil
		}
	}
	for _, path := range []string{zero, "/api/v1/namespaces/default/pods?resourceVersion=0", unset, "/readyz"} {
		if err := harness.Until(returned, answered(path)); err != nil {
			c.t.Errorf("%s: %s is not answered as usual %v after the return: %v", name, path, returned, err)
		}
	}
	c.t.Logf("%s: follows %v after the return", name, time.Since(began).Round(time.Second))
	if c.source == "etcd" {
		return
	}
	for _, resource := range []string{"configmaps", "pods"} {
		made := c.log.feeds(c.t, resource, position)
		if len(made.loads) > maxLoads || len(made.resumed) > 2 || len(made.confirmations) > 8 {
			c.t.Errorf("%s: the return cost the upstream, for %s, %+v", name, resource, made)
		}
	}
}

// TestSourceAway kills the source of a replica, pauses it, and compacts etcd behind it.
// Reads at resourceVersion=0 go on, all others say that they cannot be answered, and on
// its return the source is asked for no more than it must be.
func TestSourceAway(t *testing.T) {
	needRobustness(t)
	for _, source := range []string{"api", "etcd"} {
		t.Run(source, func(t *testing.T) {
			c := startCluster(t, source)
			writer := clientset(t, c.upstream.Config())
			all := watchAndWrite(t, c.client, writer, c.replica, 10)
			pauseFor(t.Context(), 5*time.Second)

			stop, start := c.upstream.Kill, func() { c.upstream = c.upstream.Restart() }
			pauses := c.upstream.Process
			if source == "etcd" {
				stop, start = c.etcd.Kill, func() { c.etcd = c.etcd.Restart() }
			}
			stop()
			c.away("killed")
			position := c.log.position(t)
			start()
			c.back("killed", position, 1) // a stock server that restarts forgets its history

			pauseFor(t.Context(), 5*time.Second)
			if pauses = c.upstream.Process; source == "etcd" {
				pauses = c.etcd.Process
			}
			position = c.log.position(t)
			pauses.Signal(syscall.SIGSTOP)
			c.away("paused")
			pauses.Signal(syscall.SIGCONT)
			c.back("paused", position, 1)

			all.finish(writer, 2)
		})
	}
}

// TestEtcdCompactedBehindReplica compacts etcd past what a replica has while the replica
// cannot see it: the replica loads anew, once for each resource, and says 410.
func TestEtcdCompactedBehindReplica(t *testing.T) {
	needRobustness(t)
	c := startCluster(t, "api")
	writer := clientset(t, c.upstream.Config())
	all := watchAndWrite(t, c.client, writer, c.replica, 5)
	pauseFor(t.Context(), 3*time.Second)
	c.upstream.Kill()
	var last int64
	for i := range 100 {
		last = must(c.client.Put(t.Context(), "/other", fmt.Sprint(i)))(t).Header.Revision
	}
	must(c.client.Compact(t.Context(), last))(t)
	position := c.log.position(t)
	c.upstream = c.upstream.Restart()
	c.back("compacted", position, 1)
	all.finish(writer, 1)
}

// TestReplicaKilledAtRandom kills a replica with a data directory while survivors watch
// through it, and starts it again. The upstream is asked for no list.
func TestReplicaKilledAtRandom(t *testing.T) {
	needRobustness(t)
	for _, source := range []string{"api", "etcd"} {
		t.Run(source, func(t *testing.T) {
			dir := filepath.Join(harness.ShortTempDir(t), "data")
			flags := []string{"--data-dir=" + dir, "--checkpoint-interval=1s"}
			c := startCluster(t, source, flags...)
			writer := clientset(t, c.upstream.Config())
			all := watchAndWrite(t, c.client, writer, c.replica, 10)
			awaitCheckpoint(t, dir, checkpointName(source), time.Now())
			position := c.log.position(t)
			const kills = 6
			for range kills {
				pauseFor(t.Context(), time.Duration(1000+rand.IntN(5000))*time.Millisecond)
				c.replica.Kill()
				c.replica = harness.StartReplica(t, c.upstream, c.flags(flags...)...)
				all.target.Store(c.replica)
				if !strings.Contains(c.replica.Output(), "Feed has loaded its checkpoint") {
					t.Errorf("the replica has used no checkpoint:\n%s", c.replica.Output())
				}
			}
			if made := c.log.feeds(t, "configmaps", position); len(made.loads) > 0 || len(made.resumed) > 2*kills {
				t.Errorf("%d restarts cost the upstream %+v", kills, made)
			}
			// A checkpoint may be older than what a survivor has, but never newer than what
			// the upstream still has.
			all.finish(writer, 0)
		})
	}
}

// TestEtcdRestored restores etcd from a backup under replicas and a server: all of them
// end, and begin anew with what there is. Their checkpoints are not used.
func TestEtcdRestored(t *testing.T) {
	needRobustness(t)
	etcd := harness.StartEtcd(t)
	upstream, _ := startAudited(t, "--etcd-servers="+etcd.Endpoint)
	writer := clientset(t, upstream.Config())
	createMaps(t, writer, "kept", 3)
	etcd.Kill()
	backup := t.TempDir()
	if err := os.CopyFS(backup, os.DirFS(etcd.DataDir)); err != nil {
		t.Fatal(err)
	}
	etcd = etcd.Restart()
	eventually(t, "a write", func() error {
		_, err := writer.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("lost"), metav1.CreateOptions{})
		if err != nil {
			return notYet("%v", err)
		}
		return nil
	})
	dir := harness.ShortTempDir(t)
	flags := map[string][]string{
		"etcd": {"--etcd-servers=" + etcd.Endpoint, "--data-dir=" + filepath.Join(dir, "etcd"), "--checkpoint-interval=1s"},
		"api":  {"--follow=configmaps", "--data-dir=" + filepath.Join(dir, "api"), "--checkpoint-interval=1s"},
	}
	ends := map[string]*harness.Server{"serve": harness.Start(t, harness.ShortTempDir(t), "--etcd-servers="+etcd.Endpoint)}
	lost := createMaps(t, writer, "also-lost", 3)
	for source := range flags {
		ends[source] = harness.StartReplica(t, upstream, flags[source]...)
		awaitReached(t, ends[source], lost)
		awaitCheckpointAt(t, ends[source], feedsOf(upstream, etcd.Endpoint)[source], lost)
	}
	etcd.Kill()
	upstream.Kill()
	if err := errors.Join(os.RemoveAll(etcd.DataDir), os.CopyFS(etcd.DataDir, os.DirFS(backup))); err != nil {
		t.Fatal(err)
	}
	etcd.Restart()
	upstream = upstream.Restart()
	for name, s := range ends {
		if err := s.Wait(2 * time.Minute); err == nil || !strings.Contains(s.Output(), "gone back in time") {
			t.Errorf("%s ended with %v:\n%s", name, err, s.Output())
		}
		if left := must(filepath.Glob(filepath.Join(dir, name, "checkpoints", "*")))(t); len(left) > 0 {
			t.Errorf("%s has left %v", name, left)
		}
	}
	writer = clientset(t, upstream.Config())
	createMaps(t, writer, "new", 3)
	for source := range flags {
		replica := harness.StartReplica(t, upstream, flags[source]...)
		list := must(clientset(t, replica.Config()).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}))(t)
		var names []string
		for _, cm := range list.Items {
			names = append(names, cm.Name)
		}
		if got := strings.Join(names, " "); strings.Contains(got, "lost") || !strings.Contains(got, "kept-00") || !strings.Contains(got, "new-02") {
			t.Errorf("%s: the replica of the restored etcd has %s", source, got)
		}
	}
}
