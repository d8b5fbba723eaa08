package injection

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/tool/verify/watchcheck"
	"github.com/millrace/millrace/test/support/etcdtruth"
	"github.com/millrace/millrace/test/support/harness"
)

// watchedResource is a resource of which each program of a fleet has an informer.
type watchedResource struct {
	// name is as in --follow, and root the API and version.
	name, root, kind string
	// prefix is where etcd has the objects.
	prefix string
	global bool
	// content is JSON of an object beside its metadata, and a comma behind it.
	content string
}

// watchedResources are those that agents in a cluster watch.
func watchedResources() []watchedResource {
	const (
		core, apps = "/api/v1", "/apis/apps/v1"
		podSpec    = `{"containers":[{"name":"main","image":"registry.example.com/fleet:1"}]}`
		workload   = `"spec":{"selector":{"matchLabels":{"app":"fleet"}},"template":{"metadata":{"labels":{"app":"fleet"}},"spec":` + podSpec + `}},`
	)
	return []watchedResource{
		{"pods", core, "Pod", "/registry/pods/", false, `"spec":` + podSpec + `,`},
		{"nodes", core, "Node", "/registry/minions/", true, ""},
		{"namespaces", core, "Namespace", "/registry/namespaces/", true, ""},
		{"services", core, "Service", "/registry/services/specs/", false, `"spec":{"ports":[{"port":80}]},`},
		{"endpointslices.discovery.k8s.io", "/apis/discovery.k8s.io/v1", "EndpointSlice", "/registry/endpointslices/", false, `"addressType":"IPv4","endpoints":[],`},
		{"configmaps", core, "ConfigMap", "/registry/configmaps/", false, `"data":{"mode":"fleet"},`},
		{"serviceaccounts", core, "ServiceAccount", "/registry/serviceaccounts/", false, ""}, // secrets have no checkpoints
		{"deployments.apps", apps, "Deployment", "/registry/deployments/", false, workload},
		{"replicasets.apps", apps, "ReplicaSet", "/registry/replicasets/", false, workload},
		{"daemonsets.apps", apps, "DaemonSet", "/registry/daemonsets/", false, workload},
	}
}

// plural is the resource's name without its group.
func (r *watchedResource) plural() string {
	plural, _, _ := strings.Cut(r.name, ".")
	return plural
}

// collection is the path of all objects.
func (r *watchedResource) collection() string { return r.root + "/" + r.plural() }

// objects is the path of the objects that are written.
func (r *watchedResource) objects() string {
	if r.global {
		return r.collection()
	}
	return r.root + "/namespaces/default/" + r.plural()
}

// followed is the value of --follow for all of them.
func followed() string {
	var names []string
	for _, r := range watchedResources() {
		names = append(names, r.name)
	}
	return strings.Join(names, ",")
}

// followResources records what etcd has of all of them, from now on.
func (c *cluster) followResources(ctx context.Context) *etcdtruth.Follower {
	c.tb.Helper()
	var all []etcdtruth.Resource
	for _, r := range watchedResources() {
		all = append(all, etcdtruth.Resource{Name: r.name, Prefix: r.prefix})
	}
	follower, err := etcdtruth.Follow(ctx, c.clients[0], all)
	if err != nil {
		c.tb.Fatal(err)
	}
	return follower
}

// load writes the objects that a fleet watches, at one server.
type load struct {
	t         *testing.T
	client    *http.Client
	host      string
	resources []watchedResource
	// each is how many objects each resource has.
	each int
	// made counts the writes that succeeded, and failed the others, whose outcome is unknown.
	made, failed atomic.Int64
}

// textBytes is the size of an annotation that makes objects as large as real ones.
const textBytes = 1200

// startLoad creates all objects.
func (c *cluster) startLoad(t *testing.T, server *node, each int) *load {
	t.Helper()
	config := c.config(c.ports[server.name])
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	l := &load{t: t, client: client, host: config.Host, resources: watchedResources(), each: each}
	const accounts = "/api/v1/namespaces/default/serviceaccounts"
	// The first server creates the namespace when it has served for a moment.
	err = harness.Until(readyTimeout, func() error {
		_, err := l.send(t.Context(), http.MethodPost, accounts, `{"metadata":{"name":"default"}}`)
		if errors.Is(err, errConflict) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatalf("create the service account of pods: %v", err)
	}
	for i := range each * len(l.resources) {
		if err := l.create(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// errConflict says that an object to create exists.
var errConflict = errors.New("the object exists")

// send sends a request that changes something, and returns the resource version of its answer.
func (l *load) send(ctx context.Context, method, path, body string) (revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, l.host+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	if resp.StatusCode == http.StatusConflict && method == http.MethodPost {
		return 0, errConflict
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return 0, fmt.Errorf("%s %s: %s: %.300s", method, path, resp.Status, bytes.TrimSpace(answer))
	}
	var object struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(answer, &object); err != nil {
		return 0, err
	}
	if method == http.MethodDelete { // the answer may be a status
		return 0, nil
	}
	return strconv.ParseInt(object.Metadata.ResourceVersion, 10, 64)
}

// place returns which object of which resource write i concerns.
func (l *load) place(i int) (r *watchedResource, name string) {
	r = &l.resources[i%len(l.resources)]
	return r, fmt.Sprintf("fleet-%03d", i/len(l.resources)%l.each)
}

// create creates the object of write i, unless it exists.
func (l *load) create(ctx context.Context, i int) error {
	r, name := l.place(i)
	version := strings.TrimPrefix(strings.TrimPrefix(r.root, "/apis/"), "/api/")
	text := strings.Repeat(fmt.Sprintf("setting.%d=on\\n", i), textBytes/16)
	_, err := l.send(ctx, http.MethodPost, r.objects(), fmt.Sprintf(
		`{"apiVersion":%q,"kind":%q,%s"metadata":{"name":%q,"labels":{"app":"fleet"},"annotations":{"text":"%s"}}}`, version, r.kind, r.content, name, text))
	if errors.Is(err, errConflict) {
		return nil
	}
	return err
}

// change changes an object, and returns its resource version.
func (l *load) change(ctx context.Context, i int) (int64, error) {
	r, name := l.place(i)
	return l.send(ctx, http.MethodPatch, r.objects()+"/"+name, fmt.Sprintf(`{"metadata":{"annotations":{"count":"%d"}}}`, i))
}

// replacePeriod is after how many writes one deletes an object and creates it again.
const replacePeriod = 47

// run writes at a rate, in turn to all objects, until stop is called. Config maps, which
// nothing holds up, are also deleted and created anew.
func (l *load) run(rate float64) (stop func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	var writing sync.WaitGroup
	writing.Go(func() {
		tick := time.NewTicker(time.Duration(float64(time.Second) / rate))
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-tick.C:
				l.write(ctx, i)
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); writing.Wait() }
}

// write makes write i. Errors are the faults of the test.
func (l *load) write(ctx context.Context, i int) {
	r, name := l.place(i)
	_, err := l.change(ctx, i)
	if r.kind == "ConfigMap" && i/len(l.resources)%replacePeriod == replacePeriod-1 {
		_, _ = l.send(ctx, http.MethodDelete, r.objects()+"/"+name, "") // may have happened in any case
		err = harness.Until(readyTimeout, func() error { return l.create(l.t.Context(), i) })
	}
	if err != nil {
		l.failed.Add(1)
		return
	}
	l.made.Add(1)
}

// mark changes an object of each resource, and returns the revision of each change. It goes on
// until the server takes them.
func (l *load) mark() ([]int64, error) {
	revisions := make([]int64, len(l.resources))
	for i := range l.resources {
		err := harness.Until(readyTimeout, func() (err error) {
			revisions[i], err = l.change(l.t.Context(), i+len(l.resources))
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("write: %w", err)
		}
	}
	return revisions, nil
}

// list returns the resource versions of all objects of a resource at the server, by key.
func (l *load) list(r *watchedResource) (map[watchcheck.Key]int64, error) {
	req, err := http.NewRequestWithContext(l.t.Context(), http.MethodGet, l.host+r.collection(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		Items []struct {
			Metadata struct{ Namespace, Name, ResourceVersion string }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	found := map[watchcheck.Key]int64{}
	for _, item := range answer.Items {
		m := item.Metadata
		if found[watchcheck.Key{Namespace: m.Namespace, Name: m.Name}], err = strconv.ParseInt(m.ResourceVersion, 10, 64); err != nil {
			return nil, err
		}
	}
	return found, nil
}
