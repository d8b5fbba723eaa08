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

// maxPause is the longest pause after a write, in nanoseconds.
const maxPause = int(80 * time.Millisecond)

// Objects returns the names of the resource's objects. Only RBAC allows a name like e=1.
func (r *Resource) Objects() []string {
	if r.Plural == "roles" {
		return []string{"a", "b", "c", "d", "e=1"}
	}
	return []string{"a", "b", "c", "d", "e"}
}

// write writes or deletes one object, and records the result in all versions.
func (w *writer) write(ctx context.Context, r *Resource) {
	r.turn.RLock()
	defer r.turn.RUnlock()
	served := r.servedVersions()
	if len(served) == 0 {
		return
	}
	version := served[w.random.IntN(len(served))]
	namespace := ""
	if !r.isClusterScoped() {
		namespace = w.Namespaces[w.random.IntN(len(w.Namespaces))]
	}
	name := r.Objects()[w.random.IntN(len(r.Objects()))]
	path := r.Collection(version, namespace)
	w.writes.Add(1)
	if n := w.random.IntN(10); n == 0 {
		r.noteDeleting(namespace, name)
		if a := w.Send(ctx, Call{Method: http.MethodDelete, Path: path + "/" + name}); a.Status == http.StatusOK || a.Status == http.StatusNotFound {
			r.noteDeleted(namespace, name)
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
		r.noteWrite(o)
		w.recordWrite(ctx, r, o)
	}
}

// body returns an object as JSON, which is also a merge patch of it.
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

// recordWrite reads an object that was just written, in all versions, and records the answers.
func (s *Script) recordWrite(ctx context.Context, r *Resource, o *Object) {
	for _, version := range r.servedVersions() {
		a := s.Send(ctx, Get(r.Collection(version, o.Namespace)+"/"+o.Name))
		read, err := NewObject(a.Body)
		if a.Status != http.StatusOK || err != nil || a.Foreign() {
			continue
		}
		s.noteList(r, version, a.Generation(), &List{Objects: []*Object{read}})
	}
}

// makeNamespace creates a namespace. It waits for the end of a deleted one of the same name.
func (s *Script) makeNamespace(ctx context.Context, ns string) error {
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, ns)
	for {
		a := s.Send(ctx, Call{Method: http.MethodPost, Path: "/api/v1/namespaces", Content: "application/json", Body: body})
		switch a.Status {
		case http.StatusCreated:
			return nil
		case http.StatusConflict: // the old one is not gone yet
			if err := wait(ctx, poll); err != nil {
				return err
			}
			continue
		}
		return fmt.Errorf("create namespace: status %d: %s", a.Status, a.Message())
	}
}

// remakeNamespace deletes a namespace with the script's objects in it, as
// kube-controller-manager would, and creates it again.
func (s *Script) remakeNamespace(ctx context.Context, ns string) error {
	s.record("delete namespace %s", ns)
	path := "/api/v1/namespaces/" + ns
	if a := s.Send(ctx, Call{Method: http.MethodDelete, Path: path}); a.Status != http.StatusOK {
		return fmt.Errorf("delete namespace: status %d: %s", a.Status, a.Message())
	}
	for _, r := range s.Resources {
		s.deleteObjects(ctx, r, ns)
	}
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q},"spec":{"finalizers":[]}}`, ns)
	if a := s.Send(ctx, Call{Method: http.MethodPut, Path: path + "/finalize", Content: "application/json", Body: body}); a.Status != http.StatusOK {
		return fmt.Errorf("finalize namespace: status %d: %s", a.Status, a.Message())
	}
	s.record("namespace %s is gone", ns)
	return s.makeNamespace(ctx, ns)
}

// deleteObjects deletes a resource's objects in a namespace.
func (s *Script) deleteObjects(ctx context.Context, r *Resource, ns string) {
	r.turn.Lock()
	defer r.turn.Unlock()
	if len(r.servedVersions()) == 0 || r.isClusterScoped() {
		return
	}
	r.noteDeleting(ns, "")
	version := r.servedVersions()[0]
	if a := s.Send(ctx, Call{Method: http.MethodDelete, Path: r.Collection(version, ns)}); a.Status == http.StatusOK {
		r.noteDeleted(ns, "")
	}
}
