package storedvalues

import (
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
