package storedvalues

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/test/support/harness"
)

// TestStartWithOddValues starts a server over an etcd that has odd values already, one of each
// kind at a time under several keys. It becomes ready, and answers for all others as before.
func TestStartWithOddValues(t *testing.T) {
	c, etcd := newCluster(t)
	all := values()
	for _, k := range c.all {
		if k.blocksStart {
			continue
		}
		for i, v := range all {
			if stored := v.stored(c.samples[k]); stored != nil && len(stored) < 1<<20 {
				c.write(k.key(k.oddNameOf())+string(rune('a'+i%26))+string(rune('a'+i/26)), stored)
			}
		}
	}
	c.check("with all odd values, while the server runs")
	if err := c.ours.Terminate(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	began := time.Now()
	restarted := harness.Launch(t, harness.ShortTempDir(t), flags(etcd)...)
	if err := harness.Until(40*time.Second, restarted.Ready); err != nil {
		a, _ := newSide(restarted).get("/readyz?verbose")
		t.Fatalf("not ready: %v", a.body)
	}
	c.ours = newSide(restarted)
	c.writer = c.ours
	t.Logf("ready after %v", time.Since(began))
	if err := harness.Until(20*time.Second, c.served); err != nil {
		t.Error(err)
	}
	c.check("after a start with all odd values")
}

// served returns an error until custom resources are served.
func (c *cluster) served() error {
	a, err := c.ours.get("/apis/" + group + "/v1/namespaces/" + namespace + "/things/" + steadyName)
	if err == nil && !a.ok() {
		return harness.ErrNotYet
	}
	return err
}

// TestStartWithoutServicesAndRoles starts a server over an etcd with a Service and a default
// role that cannot be read. Kubernetes' steps after the start fail for them, after half a minute
// and after a minute, and end kube-apiserver. Here reads go on, so that one can find the objects.
// The server is not ready before the Service is repaired: its informer has not begun.
func TestStartWithoutServicesAndRoles(t *testing.T) {
	if os.Getenv(durationVariable) == "" {
		t.Skipf("takes longer than a minute: set %s", durationVariable)
	}
	c, etcd := newCluster(t)
	if err := c.ours.Terminate(); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"/registry/services/specs/default/odd", "/registry/clusterroles/view"} {
		c.write(key, []byte("k8s\x00odd"))
	}
	restarted := harness.Launch(t, harness.ShortTempDir(t), flags(etcd)...)
	if err := harness.Until(time.Minute, func() error {
		if err := restarted.Ready(); err != nil && !strings.Contains(err.Error(), "500") {
			return err
		}
		return nil
	}); err != nil {
		t.Fatalf("the server does not answer: %v", err)
	}
	c.ours = newSide(restarted)
	read := func() error {
		a, err := c.ours.get("/api/v1/namespaces/" + namespace + "/configmaps/" + steadyName)
		if err != nil || !a.ok() {
			return harness.ErrNotYet
		}
		return nil
	}
	if err := harness.Until(time.Minute, read); err != nil {
		t.Fatalf("no config map is answered: %v", err)
	}
	until := time.Now().Add(75 * time.Second)
	if err := harness.Until(2*time.Minute, func() error {
		if time.Now().Before(until) {
			return harness.ErrNotYet
		}
		return read()
	}); err != nil {
		t.Error("no config map is answered any more")
	}
	c.remove("/registry/services/specs/default/odd")
	c.remove("/registry/clusterroles/view")
	if err := harness.Until(2*time.Minute, c.ours.Ready); err != nil {
		t.Errorf("not ready after the repair: %v", err)
	}
}
