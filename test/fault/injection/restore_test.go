package injection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/test/support/harness"
)

const (
	// noticed is how long a server or replica may take until it notices that its history is
	// another one: it reads at least so often, or asks a silent source for a sign of life.
	noticed = 2 * time.Minute
	// readTimeout bounds one request of this test.
	readTimeout = 15 * time.Second
	configMaps  = "/api/v1/namespaces/default/configmaps"
)

// TestRestored restores etcd from an older backup under servers and replicas at two depths.
// All of them notice. None says, in answer to a read without a version, that there is what the
// backup does not have. Then the cluster is verified under faults.
func TestRestored(t *testing.T) {
	needLong(t)
	s := wholeShape(t)
	c := startCluster(t, s)
	defer c.end()
	c.createConfigMap(t, "kept")
	backup := c.backUp(t)
	c.createConfigMap(t, "lost")
	for _, n := range c.serves() {
		c.await(t, n, "the object that gets lost", func(names string) bool { return strings.Contains(names, "lost") })
	}
	c.restore(t, backup)
	restored := time.Now()
	for i, n := range c.servers {
		if s.servers[i] != "" { // Kubernetes' servers have to be started again
			n.kill()
			n.revive()
		}
	}
	for i, n := range c.serves() {
		if i < len(s.servers) && s.servers[i] != "" {
			continue
		}
		c.awaitNotice(t, n)
		t.Logf("%s has noticed %v after the restore", n.name, time.Since(restored).Round(time.Second))
	}
	if err := awaitReady(c.nodes(), readyTimeout); err != nil {
		t.Fatal(err)
	}
	for _, n := range c.serves() {
		c.await(t, n, "the restored state", func(names string) bool { return names == "kept" })
		n.takeExits()
	}
	c.verify(t, harness.Seed(t), kinds(), duration(t))
}

// serves are the nodes with the API of Kubernetes.
func (c *cluster) serves() []*node { return slices.Concat(c.servers, c.replicas) }

// get sends a GET to a node.
func (c *cluster) get(n *node, path string) (status int, body []byte, err error) {
	return c.send(n, http.MethodGet, path, "")
}

func (c *cluster) send(n *node, method, path, body string) (status int, answer []byte, err error) {
	config := c.config(c.ports[n.name])
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, config.Host+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// createConfigMap creates a config map at the first server that does it.
func (c *cluster) createConfigMap(t *testing.T, name string) {
	t.Helper()
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}`, name)
	err := harness.Until(readyTimeout, func() error {
		status, answer, err := c.send(c.servers[0], http.MethodPost, configMaps, body)
		if err == nil && status != http.StatusCreated && status != http.StatusConflict {
			err = fmt.Errorf("status %d: %.300s", status, answer)
		}
		return err
	})
	if err != nil {
		t.Fatalf("create %s: %v", name, err)
	}
}

// names are those of the config maps that tests have created, in answer to a consistent read.
func (c *cluster) names(n *node) (string, error) {
	status, body, err := c.get(n, configMaps)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %.300s", status, body)
	}
	if err != nil {
		return "", err
	}
	list, err := metadataOf(body)
	var names []string
	for i := range list.Items {
		if name := list.Items[i].Name; name != "kube-root-ca.crt" {
			names = append(names, name)
		}
	}
	return strings.Join(names, " "), err
}

// await waits until a node lists config maps as they should be.
func (c *cluster) await(t *testing.T, n *node, what string, good func(names string) bool) {
	t.Helper()
	err := harness.Until(readyTimeout, func() error {
		names, err := c.names(n)
		if err == nil && !good(names) {
			err = fmt.Errorf("it lists %q", names)
		}
		return err
	})
	if err != nil {
		t.Fatalf("%s does not show %s: %v", n.name, what, err)
	}
}

// backUp copies the data of all members, which are stopped meanwhile.
func (c *cluster) backUp(t *testing.T) string {
	t.Helper()
	backup := filepath.Join(c.dir, "backup")
	for _, n := range c.members {
		n.kill()
	}
	for _, m := range c.configs {
		if err := os.CopyFS(filepath.Join(backup, m.Name), os.DirFS(m.DataDir)); err != nil {
			t.Fatal(err)
		}
	}
	c.startAll(c.members)
	return backup
}

// restore has all members begin with the data of a backup.
func (c *cluster) restore(t *testing.T, backup string) {
	t.Helper()
	for _, n := range c.members {
		n.kill()
	}
	for _, m := range c.configs {
		if err := errors.Join(os.RemoveAll(m.DataDir), os.CopyFS(m.DataDir, os.DirFS(filepath.Join(backup, m.Name)))); err != nil {
			t.Fatal(err)
		}
	}
	c.startAll(c.members)
}

// awaitNotice waits until a node has ended because its history is another one. Until then it
// answers no read without a version with what is gone.
func (c *cluster) awaitNotice(t *testing.T, n *node) {
	t.Helper()
	err := harness.Until(noticed, func() error {
		for _, said := range n.takeExits() {
			if strings.Contains(said, "gone back in time") {
				return nil
			}
			t.Errorf("%s has ended by itself:\n%s", n.name, said)
		}
		if names, err := c.names(n); err == nil && strings.Contains(names, "lost") {
			t.Errorf("%s lists %q, which the restored etcd does not have", n.name, names)
		}
		return harness.ErrNotYet
	})
	if err != nil {
		t.Errorf("%s has not noticed within %v that its history is another one:\n%s", n.name, noticed, n.output())
	}
}

// agree compares what all servers and replicas have at one revision, byte by byte.
func (c *cluster) agree(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/api/v1/namespaces", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"} {
		status, body, err := c.get(c.servers[0], path)
		list, failed := metadataOf(body)
		if err = errors.Join(err, failed); err != nil || status != http.StatusOK {
			t.Errorf("%s: status %d, %v", path, status, err)
			continue
		}
		exact := path + "?resourceVersionMatch=Exact&resourceVersion=" + list.ResourceVersion
		_, want, err := c.get(c.servers[0], exact)
		for _, n := range c.serves() {
			status, got, failed := c.get(n, exact)
			if err = errors.Join(err, failed); err != nil || string(got) != string(want) {
				at := harness.FirstDifference(got, want)
				t.Errorf("%s at %s: status %d, %v; differs at %d of %d: %.200q", exact, n.name, status, err, at, len(want), got[at:])
			}
		}
	}
}

// metadataOf reads the metadata of a list and its objects.
func metadataOf(body []byte) (list metav1.PartialObjectMetadataList, err error) {
	return list, json.Unmarshal(body, &list)
}
