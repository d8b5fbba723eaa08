package storedvalues

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/test/support/harness"
)

// TestServerLives writes odd values while a server runs, in random order, and removes them
// again. Each other object is answered as before, byte for byte.
func TestServerLives(t *testing.T) {
	c, _ := newCluster(t)
	c.check("before any odd value")
	t.Logf("%d values of %d kinds at a time", c.rounds(duration(t, 15*time.Second)), len(c.all))
	if os.Getenv(durationVariable) != "" {
		c.checkVeryManyLabels() // takes half a minute of two processors
	}
	c.checkRecovered()
}

// TestReplicaLives does the same at a replica that follows etcd.
func TestReplicaLives(t *testing.T) {
	c, etcd := newCluster(t)
	c.ours = newSide(harness.StartReplica(t, c.writer.Server, etcd.EtcdServers()))
	c.check("before any odd value")
	t.Logf("%d values of %d kinds at a time", c.rounds(duration(t, 5*time.Second)), len(c.all))
	c.checkRecovered()
}

// rounds writes values in random order, all of them again and again, until a time is over. It
// returns how many.
func (c *cluster) rounds(length time.Duration) (written int) {
	c.t.Helper()
	all, follows := values(), c.follow()
	end := time.Now().Add(length)
	for time.Now().Before(end) {
		for _, i := range c.random.Perm(len(all)) {
			if time.Now().After(end) {
				break
			}
			keys := c.writeAll(all[i])
			c.check(all[i].name)
			c.writeSteady(all[i].name)
			c.checkFollows(follows, all[i].name)
			c.removeAll(keys)
			written++
		}
		c.compact()
	}
	return written
}

// writeAll writes a value under the odd key of each kind. It returns the keys.
func (c *cluster) writeAll(v value) (keys []string) {
	c.t.Helper()
	for _, k := range c.all {
		if stored := v.stored(c.samples[k]); stored != nil {
			c.write(k.key(k.oddNameOf()), stored)
			keys = append(keys, k.key(k.oddNameOf()))
		}
	}
	return keys
}

func (c *cluster) removeAll(keys []string) {
	c.t.Helper()
	for _, key := range keys {
		c.remove(key)
	}
}

// check checks that the server lives, and that it answers for all steady objects as before.
// LISTs and GETs that meet odd values are answered, in whatever way.
func (c *cluster) check(when string) {
	c.t.Helper()
	for _, k := range c.all {
		path := k.path(k.nameOf())
		if a := c.answered(when, path); a != c.steady[path] {
			c.t.Errorf("%s: GET %s: %v, want %v", when, path, a, c.steady[path])
		}
		c.answered(when, k.list)
		c.answered(when, k.path(k.oddNameOf()))
	}
	if a := c.answered(when, "/openapi/v2"); !a.ok() {
		c.t.Errorf("%s: OpenAPI v2: %d", when, a.status)
	}
}

// answered sends a GET, which must be answered.
func (c *cluster) answered(when, path string) answer {
	c.t.Helper()
	a, err := c.ours.get(path)
	if err == nil {
		return a
	}
	select {
	case <-c.ours.Done():
		c.t.Fatalf("%s: GET %s: the process has ended", when, path)
	default:
		c.t.Fatalf("%s: GET %s: %v", when, path, err)
	}
	return answer{}
}

// writeSteady sends a dry run of a write to a config map, which all kinds of admission see.
func (c *cluster) writeSteady(when string) {
	c.t.Helper()
	path := c.all[0].path(steadyName) + "?dryRun=All"
	a, err := c.writer.do(http.MethodPatch, path, `{"data":{"more":"data"}}`)
	if err != nil || !a.ok() && !isForbiddenByPolicy(a) {
		c.t.Errorf("%s: PATCH %s: %v, %v", when, path, a, err)
	}
}

// isForbiddenByPolicy reports whether a write was refused because of an odd policy of
// admission. A policy that names nothing forbids everything, here and in Kubernetes, until some
// time after it is gone.
func isForbiddenByPolicy(a answer) bool {
	return a.status == http.StatusUnprocessableEntity && strings.Contains(a.body, "policy contained no match constraints")
}

// checkVeryManyLabels writes one object with two million labels. Others are answered meanwhile.
// To read the object itself takes too long here.
func (c *cluster) checkVeryManyLabels() {
	c.t.Helper()
	k := c.all[0]
	c.write(k.key(oddName), manyLabels(labelPairs)(c.samples[k]))
	// It takes seconds to decode, and reads wait for that with the feed.
	if err := harness.Until(3*time.Minute, func() error {
		if a := c.answered("with two million labels", k.path(steadyName)); !a.ok() {
			return harness.ErrNotYet
		}
		return nil
	}); err != nil {
		c.t.Error("with two million labels: the server does not answer again")
	}
	c.remove(k.key(oddName))
}

// checkRecovered checks that LISTs have the steady objects and nothing odd.
func (c *cluster) checkRecovered() {
	c.t.Helper()
	for _, k := range c.all {
		a := c.answered("after the last odd value", k.list)
		if !a.ok() {
			c.t.Errorf("after the last odd value: LIST %s: %v", k.list, a)
		}
	}
	c.check("after the last odd value")
}
