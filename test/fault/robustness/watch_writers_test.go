package robustness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/millrace/millrace/test/support/etcdtruth"
)

// stressedKind is a resource that the test writes and watches.
type stressedKind struct {
	etcdtruth.Resource
	root, apiVersion, kind string
	body                   func(r *rand.Rand, ns string) map[string]any
	selectors              []string
}

func (k *stressedKind) path(ns string) string {
	if ns == "" {
		return k.root + "/" + k.Name
	}
	return k.root + "/namespaces/" + ns + "/" + k.Name
}

var stressNamespaces = []string{"stress-a", "stress-b"}

const (
	stressNames  = 12
	writers      = 4
	writePeriod  = 25 * time.Millisecond
	writeTimeout = 5 * time.Second
	configMaps   = "/registry/configmaps/"
)

func stressName(r *rand.Rand) string { return fmt.Sprintf("object-%d", r.IntN(stressNames)) }

func choose[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

var stressedKinds = []*stressedKind{
	{
		Resource: etcdtruth.Resource{Name: "configmaps", Prefix: configMaps}, root: "/api/v1", apiVersion: "v1", kind: "ConfigMap",
		body: func(r *rand.Rand, _ string) map[string]any {
			return map[string]any{"data": map[string]any{"key": string(bytes.Repeat([]byte("x"), r.IntN(8000)))}}
		},
	},
	{
		Resource: etcdtruth.Resource{Name: "secrets", Prefix: "/registry/secrets/", Fields: []string{"type"}}, root: "/api/v1", apiVersion: "v1", kind: "Secret",
		body: func(r *rand.Rand, _ string) map[string]any {
			return map[string]any{"type": choose(r, "Opaque", "example.com/x")}
		},
		selectors: []string{"type=Opaque", "type!=Opaque"},
	},
	{
		Resource: etcdtruth.Resource{Name: "pods", Prefix: "/registry/pods/", Fields: []string{"spec.nodeName", "status.phase"}}, root: "/api/v1", apiVersion: "v1", kind: "Pod",
		body: func(r *rand.Rand, _ string) map[string]any {
			return map[string]any{"spec": map[string]any{"nodeName": choose(r, "node-1", "node-2"), "containers": []any{map[string]any{"name": "main", "image": "registry.example.com/main:1"}}}}
		},
		selectors: []string{"spec.nodeName=node-1", "spec.nodeName=node-1,status.phase=Pending", "status.phase!=Running"},
	},
	{
		Resource: etcdtruth.Resource{Name: "leases", Prefix: "/registry/leases/"}, root: "/apis/coordination.k8s.io/v1", apiVersion: "coordination.k8s.io/v1", kind: "Lease",
		body: func(*rand.Rand, string) map[string]any {
			return map[string]any{"spec": map[string]any{"holderIdentity": "holder", "leaseDurationSeconds": 5}}
		},
	},
	{
		Resource: etcdtruth.Resource{Name: "events", Prefix: "/registry/events/", Fields: []string{"reason"}}, root: "/api/v1", apiVersion: "v1", kind: "Event",
		body: func(r *rand.Rand, ns string) map[string]any {
			return map[string]any{"involvedObject": map[string]any{"kind": "Pod", "namespace": ns, "name": "pod-1"}, "reason": choose(r, "Started", "Killing"), "type": "Normal", "message": "m"}
		},
		selectors: []string{"reason=Started", "reason!=Started"},
	},
}

// churn writes through the API until its context ends. Faults cause errors, so
// churn only counts them: the test reads from etcd which writes succeeded.
type churn struct {
	base   string
	client *http.Client
	done   atomic.Int64
	failed atomic.Int64
	number atomic.Int64
}

func (c *churn) run(ctx context.Context, r *rand.Rand) {
	ticker := time.NewTicker(writePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := c.write(ctx, r); err != nil {
			c.failed.Add(1)
		} else {
			c.done.Add(1)
		}
	}
}

// write creates an object, changes its labels or deletes it.
func (c *churn) write(ctx context.Context, r *rand.Rand) error {
	k, ns, name := choose(r, stressedKinds...), choose(r, stressNamespaces...), stressName(r)
	set := map[string]any{"write": fmt.Sprint(c.number.Add(1)), "app": choose(r, "web", "db", "cache")}
	if r.IntN(3) == 0 {
		set["tier"] = choose[any](r, "front", nil)
	}
	if r.IntN(5) == 0 {
		return c.send(ctx, http.MethodDelete, k.path(ns)+"/"+name, map[string]any{"gracePeriodSeconds": 0})
	}
	err := c.send(ctx, http.MethodPatch, k.path(ns)+"/"+name, map[string]any{"metadata": map[string]any{"labels": set}})
	if err != errNotFound {
		return err
	}
	if set["tier"] == nil {
		delete(set, "tier")
	}
	made := k.body(r, ns)
	made["apiVersion"], made["kind"] = k.apiVersion, k.kind
	made["metadata"] = map[string]any{"name": name, "namespace": ns, "labels": set}
	return c.send(ctx, http.MethodPost, k.path(ns), made)
}

var errNotFound = errRefused{http.StatusNotFound}

func (c *churn) send(ctx context.Context, method, path string, body any) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(content))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", map[bool]string{false: "application/json", true: "application/merge-patch+json"}[method == http.MethodPatch])
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode >= http.StatusBadRequest {
		return errRefused{resp.StatusCode}
	}
	return nil
}

// transactions changes several config maps in one transaction, until ctx ends.
// The API never writes several objects at one revision.
func transactions(ctx context.Context, t *testing.T, etcd *clientv3.Client, r *rand.Rand) (done int) {
	encoder := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	ticker := time.NewTicker(10 * writePeriod)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return done
		case <-ticker.C:
		}
		var puts []clientv3.Op
		for i := range 2 + r.IntN(4) {
			config := &corev1.ConfigMap{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
				ObjectMeta: metav1.ObjectMeta{Namespace: choose(r, stressNamespaces...), Name: fmt.Sprintf("together-%d", i), UID: "together", Labels: map[string]string{"app": choose(r, "web", "db"), "write": fmt.Sprint(n)}},
			}
			var value bytes.Buffer
			if err := encoder.Encode(config, &value); err != nil {
				t.Errorf("encode: %v", err)
				return done
			}
			puts = append(puts, clientv3.OpPut(configMaps+config.Namespace+"/"+config.Name, value.String()))
		}
		limited, cancel := context.WithTimeout(ctx, writeTimeout)
		if _, err := etcd.Txn(limited).Then(puts...).Commit(); err == nil {
			done++
		}
		cancel()
	}
}
