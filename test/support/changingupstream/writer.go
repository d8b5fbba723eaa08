package changingupstream

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// writer writes random objects.
type writer struct {
	*Script
	random *rand.Rand
}

func (s *Script) newWriter(stream uint64) *writer {
	return &writer{Script: s, random: rand.New(rand.NewPCG(s.Seed, stream))}
}

// run writes until the context ends.
func (w *writer) run(ctx context.Context, r *Resource) {
	for ctx.Err() == nil {
		w.write(ctx, r)
		_ = wait(ctx, time.Duration(w.random.IntN(maxPause)))
	}
}

// maxPause is the longest pause behind a write.
const maxPause = int(80 * time.Millisecond)

// Objects are the names of the resource's objects. Only RBAC allows such a name as the last one.
func (r *Resource) Objects() []string {
	if r.Plural == "roles" {
		return []string{"a", "b", "c", "d", "e=1"}
	}
	return []string{"a", "b", "c", "d", "e"}
}

// write makes one write, and records what is there then.
func (w *writer) write(ctx context.Context, r *Resource) {
	r.turn.RLock()
	defer r.turn.RUnlock()
	served := r.served()
	if len(served) == 0 {
		return
	}
	version, namespace := served[w.random.IntN(len(served))], ""
	if !r.isClusterScoped() {
		namespace = w.Namespaces[w.random.IntN(len(w.Namespaces))]
	}
	name := r.Objects()[w.random.IntN(len(r.Objects()))]
	path := r.Collection(version, namespace)
	w.writes.Add(1)
	if n := w.random.IntN(10); n == 0 {
		r.deletes(namespace, name)
		if a := w.Send(ctx, Call{Method: http.MethodDelete, Path: path + "/" + name}); a.Status == http.StatusOK || a.Status == http.StatusNotFound {
			r.deleted(namespace, name)
		}
		return
	}
	body := w.body(r, version, namespace, name)
	a := w.Send(ctx, Call{Method: http.MethodPatch, Path: path + "/" + name, Content: "application/merge-patch+json", Body: body})
	if a.Status == http.StatusNotFound {
		a = w.Send(ctx, Call{Method: http.MethodPost, Path: path, Content: "application/json", Body: body})
	}
	if a.Status != http.StatusOK && a.Status != http.StatusCreated {
		return
	}
	if o, err := NewObject(a.Body); err == nil {
		r.wrote(o)
		w.recordWrite(ctx, r, o)
	}
}

// body is an object, or a patch of it.
func (w *writer) body(r *Resource, version, namespace, name string) string {
	pick := func(from ...string) string { return from[w.random.IntN(len(from))] }
	metadata := map[string]any{"name": name, "labels": map[string]any{"part": pick("one", "two")}}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	content := map[string]any{"apiVersion": r.Group + "/" + version, "kind": r.Kind, "metadata": metadata}
	switch {
	case r.Plural == "configmaps":
		content["apiVersion"], content["data"] = version, map[string]any{pick("x", "y"): fmt.Sprint(w.random.IntN(1000))}
	case r.Plural == "statefulsets":
		content["spec"] = map[string]any{
			"serviceName": "s", "replicas": w.random.IntN(9), "selector": map[string]any{"matchLabels": map[string]any{"app": "a"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "a"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": pick("i", "j")}}},
			},
		}
	case r.Plural == "roles":
		content["rules"] = []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "verbs": []any{pick("get", "list", "watch", "update")}}}
	default:
		spec := map[string]any{"replicas": w.random.IntN(90), "extra" + fmt.Sprint(w.random.IntN(5)): "e", "wide": pick("w1", "w2"), "narrow": pick("n1", "n2")}
		if w.random.IntN(2) == 0 {
			spec["color"] = pick("red", "blue")
		}
		content["spec"] = spec
	}
	text, _ := json.Marshal(content)
	return string(text)
}

// recordWrite reads an object that was just written in all versions.
func (s *Script) recordWrite(ctx context.Context, r *Resource, o *Object) {
	for _, version := range r.served() {
		a := s.Send(ctx, Get(r.Collection(version, o.Namespace)+"/"+o.Name))
		read, err := NewObject(a.Body)
		if a.Status != http.StatusOK || err != nil || a.Foreign() {
			continue
		}
		s.noteList(r, version, a.Generation(), &List{Objects: []*Object{read}})
	}
}

// makeNamespace makes a namespace.
func (s *Script) makeNamespace(ctx context.Context, ns string) error {
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, ns)
	for {
		a := s.Send(ctx, Call{Method: http.MethodPost, Path: "/api/v1/namespaces", Content: "application/json", Body: body})
		switch a.Status {
		case http.StatusCreated:
			return nil
		case http.StatusConflict: // it is not gone yet
			if err := wait(ctx, poll); err != nil {
				return err
			}
			continue
		}
		return fmt.Errorf("create namespace: status %d: %s", a.Status, a.Message())
	}
}

// remakeNamespace deletes a namespace with all that the script has in it, as
// kube-controller-manager would, and makes it again.
func (s *Script) remakeNamespace(ctx context.Context, ns string) error {
	s.tell("delete namespace %s", ns)
	path := "/api/v1/namespaces/" + ns
	if a := s.Send(ctx, Call{Method: http.MethodDelete, Path: path}); a.Status != http.StatusOK {
		return fmt.Errorf("delete namespace: status %d: %s", a.Status, a.Message())
	}
	for _, r := range s.Resources {
		s.empty(ctx, r, ns)
	}
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q},"spec":{"finalizers":[]}}`, ns)
	if a := s.Send(ctx, Call{Method: http.MethodPut, Path: path + "/finalize", Content: "application/json", Body: body}); a.Status != http.StatusOK {
		return fmt.Errorf("finalize namespace: status %d: %s", a.Status, a.Message())
	}
	s.tell("namespace %s is gone", ns)
	return s.makeNamespace(ctx, ns)
}

// empty deletes a resource's objects in a namespace.
func (s *Script) empty(ctx context.Context, r *Resource, ns string) {
	r.turn.Lock()
	defer r.turn.Unlock()
	if len(r.served()) == 0 || r.isClusterScoped() {
		return
	}
	r.deletes(ns, "")
	version := r.served()[0]
	if a := s.Send(ctx, Call{Method: http.MethodDelete, Path: r.Collection(version, ns)}); a.Status == http.StatusOK {
		r.deleted(ns, "")
	}
}
