package storedvalues

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/millrace/millrace/test/support/harness"
)

// cluster is an etcd with servers over it, and the objects that stay.
type cluster struct {
	t      *testing.T
	random *rand.Rand
	etcd   *clientv3.Client
	all    []*kind
	// samples has, by kind, the steady object under the odd name.
	samples map[*kind]*sample
	// ours is the server or replica that is tested, writer the server that takes writes.
	ours, writer *side
	// steady has the answer to a GET of each steady object.
	steady map[string]answer
}

// side is a server and its administrator's client.
type side struct {
	*harness.Server
	client *http.Client
}

func newSide(s *harness.Server) *side {
	client := s.HTTPClient()
	client.Timeout = requestTimeout
	return &side{Server: s, client: client}
}

// requestTimeout is beyond the 60 s after which servers end requests.
const requestTimeout = 70 * time.Second

// answer is a status and a body.
type answer struct {
	status int
	body   string
}

func (a answer) String() string { return fmt.Sprintf("%d %.300q", a.status, a.body) }

// ok reports whether the request has succeeded.
func (a answer) ok() bool { return a.status >= 200 && a.status < 300 }

// do sends a request. The error is that of the connection.
func (s *side) do(method, path, body string) (answer, error) {
	req, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Accept", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, string(content)}, err
}

func (s *side) get(path string) (answer, error) { return s.do(http.MethodGet, path, "") }

// flags are those of all servers. Leases and endpoints would write by themselves.
func flags(etcd *harness.Etcd) []string {
	return []string{
		etcd.EtcdServers(), "--feature-gates=APIServerIdentity=false,UnknownVersionInteroperabilityProxy=false",
		"--endpoint-reconciler-type=none", "--advertise-address=127.0.0.1",
	}
}

// newCluster starts an etcd and a server over it, and makes the objects that stay.
func newCluster(t *testing.T) (*cluster, *harness.Etcd) {
	t.Helper()
	seed := harness.Seed(t)
	t.Logf("seed %d", seed)
	etcd := harness.StartEtcd(t)
	c := &cluster{t: t, random: rand.New(rand.NewPCG(seed, 44)), etcd: etcd.Client(), all: kinds(), samples: map[*kind]*sample{}, steady: map[string]answer{}}
	c.ours = newSide(harness.Start(t, harness.ShortTempDir(t), flags(etcd)...))
	c.writer = c.ours
	c.post("/api/v1/namespaces", `{"metadata":{"name":"`+namespace+`"}}`)
	c.post("/api/v1/namespaces/"+namespace+"/serviceaccounts", `{"metadata":{"name":"default"}}`)
	c.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", customDefinition)
	for _, k := range c.all {
		c.post(k.list, k.fill())
	}
	if err := harness.Until(time.Minute, c.settled); err != nil {
		t.Fatal(err)
	}
	for _, k := range c.all {
		c.takeSample(k)
	}
	return c, etcd
}

// post creates an object, once its resource is served.
func (c *cluster) post(path, object string) {
	c.t.Helper()
	err := harness.Until(time.Minute, func() error {
		a, err := c.writer.do(http.MethodPost, path, object)
		if err == nil && a.status != http.StatusCreated {
			err = fmt.Errorf("POST %s: %v", path, a)
		}
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// settled returns an error until controllers have written the status of steady objects.
func (c *cluster) settled() error {
	for _, path := range []string{
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + steadyName + "s." + group,
		"/apis/apiregistration.k8s.io/v1/apiservices/" + steadyName + ".remote.example",
		"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/" + steadyName,
	} {
		a, err := c.writer.get(path)
		if err != nil {
			return err
		}
		if !strings.Contains(a.body, `"conditions":`) {
			return fmt.Errorf("%s has no conditions", path)
		}
	}
	return nil
}

// takeSample remembers a steady object, and how it is stored.
func (c *cluster) takeSample(k *kind) {
	c.t.Helper()
	a, err := c.writer.get(k.path(k.nameOf()))
	if err != nil || !a.ok() {
		c.t.Fatalf("GET %s: %v, %v", k.path(k.nameOf()), a, err)
	}
	c.steady[k.path(k.nameOf())] = a
	s := &sample{random: c.random, kind: k}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(a.body, steadyName, oddName)), &s.object); err != nil {
		c.t.Fatal(err)
	}
	m := metadataOf(s.object)
	m["uid"] = "11111111-2222-3333-4444-555555555555"
	delete(m, "resourceVersion")
	stored := c.read(k.key(k.nameOf()))
	if len(stored) == 0 {
		c.t.Fatalf("%s is not at %s", k, k.key(k.nameOf()))
	}
	s.raw = bytes.Clone(stored)
	c.samples[k] = s
}

const etcdTimeout = 30 * time.Second

func (c *cluster) read(key string) []byte {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), etcdTimeout)
	defer cancel()
	resp, err := c.etcd.Get(ctx, key)
	if err != nil {
		c.t.Fatalf("read %s: %v", key, err)
	}
	if len(resp.Kvs) == 0 {
		return nil
	}
	return resp.Kvs[0].Value
}

func (c *cluster) write(key string, stored []byte) {
	c.t.Helper()
	c.change("write "+key, func(ctx context.Context) error {
		_, err := c.etcd.Put(ctx, key, string(stored))
		return err
	})
}

func (c *cluster) remove(key string) {
	c.t.Helper()
	c.change("remove "+key, func(ctx context.Context) error {
		_, err := c.etcd.Delete(ctx, key)
		return err
	})
}

// change changes etcd, which a busy machine may keep from answering in time. Both changes may be
// made twice.
func (c *cluster) change(what string, request func(context.Context) error) {
	c.t.Helper()
	if err := harness.Until(4*etcdTimeout, func() error {
		ctx, cancel := context.WithTimeout(c.t.Context(), etcdTimeout)
		defer cancel()
		return request(ctx)
	}); err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

// compact has etcd forget replaced values, so that a long run does not fill it.
func (c *cluster) compact() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), etcdTimeout)
	defer cancel()
	now, err := c.etcd.Get(ctx, "/registry", clientv3.WithCountOnly())
	if err != nil {
		c.t.Fatalf("read etcd's revision: %v", err)
	}
	if _, err := c.etcd.Compact(ctx, now.Header.Revision); err != nil {
		c.t.Fatalf("compact etcd: %v", err)
	}
}
