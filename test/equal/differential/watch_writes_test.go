package differential

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// script is a seeded sequence of writes to its own objects.
type script struct {
	*requestGenerator
	pair *pair
	seed uint64
	// kinds are the kinds that the script writes. They are few, so that each
	// object changes often.
	kinds  []*watchedKind
	exists map[string]*target
	bound  map[string]bool
	writes int
	// several is the number of the last write that wrote several objects at one
	// revision.
	several int
}

// target is an object that a script may write.
type target struct {
	kind     *watchedKind
	ns, name string
}

func (o target) path() string { return o.kind.listPath(o.kind.roots[0], o.ns) + "/" + o.name }

const scriptNames = 3

var (
	scriptNamespaces = []string{"team-a", "team-b"}
	scriptApps       = []string{"web", "db", "cache"}
)

// some returns a random object of the script. It may not exist.
func (s *script) some() target {
	o := target{kind: pick(s.requestGenerator, s.kinds...), name: fmt.Sprintf("script-%x-%d", s.seed%4096, s.IntN(scriptNames))}
	if o.kind.namespaced {
		o.ns = pick(s.requestGenerator, scriptNamespaces...)
	}
	return o
}

// write makes one random write.
func (s *script) write(ctx context.Context) error {
	s.writes++
	if s.once(12) {
		return s.together(ctx)
	}
	o := s.some()
	key := o.path()
	if s.exists[key] == nil {
		return s.create(ctx, o)
	}
	switch s.IntN(12) {
	case 0, 1:
		return s.delete(ctx, o)
	case 2:
		if err := s.delete(ctx, o); err != nil {
			return err
		}
		return s.create(ctx, o)
	case 3, 4:
		return s.put(ctx, o)
	case 5, 6:
		return s.patch(ctx, key, o.kind.touch(s.requestGenerator))
	case 7:
		return s.patch(ctx, key, map[string]any{}) // changes nothing
	case 8, 9:
		if o.kind.Name == "pods" {
			return s.progress(ctx, o)
		}
	}
	return s.patch(ctx, key, map[string]any{"metadata": map[string]any{"labels": s.labels()}})
}

// labels returns random labels, which move objects into and out of selections.
func (s *script) labels() map[string]any {
	set := map[string]any{"write": fmt.Sprint(s.writes)}
	if s.once(2) {
		set["app"] = pick(s.requestGenerator, scriptApps...)
	}
	if s.once(3) {
		set["tier"] = pick[any](s.requestGenerator, "front", nil)
	}
	return set
}

func (s *script) create(ctx context.Context, o target) error {
	made := object(o.kind.apiVersion, o.kind.kind, o.ns, o.name)
	labels := s.labels()
	maps.DeleteFunc(labels, func(_ string, value any) bool { return value == nil })
	made["metadata"].(map[string]any)["labels"] = labels
	maps.Copy(made, o.kind.body(s.requestGenerator, o.ns))
	s.exists[o.path()] = &o
	return s.send(ctx, http.MethodPost, o.kind.listPath(o.kind.roots[0], o.ns), made)
}

func (s *script) delete(ctx context.Context, o target) error {
	delete(s.exists, o.path())
	delete(s.bound, o.path())
	return s.send(ctx, http.MethodDelete, o.path(), map[string]any{"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
}

func (s *script) patch(ctx context.Context, path string, patch map[string]any) error {
	return s.send(ctx, http.MethodPatch, path, patch)
}

// put replaces an object. The new one has another annotation and other labels.
func (s *script) put(ctx context.Context, o target) error {
	content, err := s.call(ctx, http.MethodGet, o.path(), nil)
	if err != nil {
		return err
	}
	var made map[string]any
	if err := json.Unmarshal(content, &made); err != nil {
		return err
	}
	meta := made["metadata"].(map[string]any)
	meta["annotations"] = map[string]any{"put": fmt.Sprint(s.writes)}
	labels := s.labels()
	maps.DeleteFunc(labels, func(_ string, value any) bool { return value == nil })
	meta["labels"] = labels
	return s.send(ctx, http.MethodPut, o.path(), made)
}

// progress binds a pod to a node at its first call, and changes the pod's phase
// afterwards.
func (s *script) progress(ctx context.Context, o target) error {
	if !s.bound[o.path()] {
		s.bound[o.path()] = true
		binding := object("v1", "Binding", o.ns, o.name)
		binding["target"] = map[string]any{"kind": "Node", "name": pick(s.requestGenerator, "node-1", "node-2")}
		return s.send(ctx, http.MethodPost, o.path()+"/binding", binding)
	}
	return s.patch(ctx, o.path()+"/status", map[string]any{"status": map[string]any{"phase": pick(s.requestGenerator, "Running", "Succeeded", "Pending")}})
}

const togetherAtMost = 4

func (s *script) togetherKey(ns string, i int) string {
	return fmt.Sprintf("/registry/configmaps/%s/script-%x-together-%d", ns, s.seed%4096, i)
}

// together writes and deletes several config maps in one transaction. All then
// have the same revision, which the API never does.
func (s *script) together(ctx context.Context) error {
	encoder := serializer.NewSerializer(scheme.Scheme, scheme.Scheme)
	var ops []clientv3.Op
	for i := range 2 + s.IntN(togetherAtMost-1) {
		ns := pick(s.requestGenerator, scriptNamespaces...)
		key := s.togetherKey(ns, i)
		if s.once(4) {
			ops = append(ops, clientv3.OpDelete(key))
			continue
		}
		made := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
		made.Namespace, made.Name, made.UID = ns, path.Base(key), "together"
		made.Labels = map[string]string{"write": fmt.Sprint(s.writes), "app": pick(s.requestGenerator, scriptApps...)}
		var value bytes.Buffer
		if err := encoder.Encode(made, &value); err != nil {
			return err
		}
		ops = append(ops, clientv3.OpPut(key, value.String()))
	}
	s.several = s.writes
	_, err := s.pair.etcd.Txn(ctx).Then(ops...).Commit()
	return err
}

// clean deletes the remaining objects of the script.
func (s *script) clean(ctx context.Context) error {
	for i := range togetherAtMost {
		for _, ns := range scriptNamespaces {
			if _, err := s.pair.etcd.Delete(ctx, s.togetherKey(ns, i)); err != nil {
				return err
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.exists)) {
		if err := s.delete(ctx, *s.exists[key]); err != nil {
			return err
		}
	}
	return nil
}

func (s *script) send(ctx context.Context, method, path string, body any) error {
	_, err := s.call(ctx, method, path, body)
	return err
}

// call sends a request to a random server.
func (s *script) call(ctx context.Context, method, path string, body any) ([]byte, error) {
	content, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	to := pick(s.requestGenerator, s.pair.ours, s.pair.theirs)
	req, err := http.NewRequestWithContext(ctx, method, to.URL+path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := to.clients[admin].Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %s: %.300s", method, path, resp.Status, answer)
	}
	return answer, err
}
