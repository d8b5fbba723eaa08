package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Labels that every object has. No two writes have the same value. Selectors select one half of
// the objects.
const (
	valueLabel = "value"
	halfLabel  = "half"
)

// halves has the values of halfLabel.
var halves = []string{"a", "b"}

// resource is a resource whose objects are written and read.
type resource struct {
	name, kind, version string // version is an apiVersion
	// collection is the path of the resource's objects in the namespace of the run.
	collection string
}

// fixture is the namespace and the definition that a run creates.
type fixture struct {
	run              string // the run's id
	namespace, group string
	resources        []resource
	// mayExist says that there may be something to remove.
	mayExist bool
}

// newFixture returns the fixture of a run, and creates nothing. It has a built-in and a custom
// resource, since servers read them in different ways.
func newFixture(run string) *fixture {
	f := &fixture{run: run, namespace: "millrace-verify-" + run, group: run + ".verify.millrace.dev"}
	collection := func(api, name string) string { return api + "/namespaces/" + f.namespace + "/" + name }
	f.resources = []resource{
		{"leases", "Lease", "coordination.k8s.io/v1", collection("/apis/coordination.k8s.io/v1", "leases")},
		{"registers", "Register", f.group + "/v1", collection("/apis/"+f.group+"/v1", "registers")},
	}
	return f
}

// resource returns the resource of a name, nil if the fixture has none.
func (f *fixture) resource(name string) *resource {
	for i := range f.resources {
		if f.resources[i].name == name {
			return &f.resources[i]
		}
	}
	return nil
}

// encodeObject returns an object as JSON. version is its resource version, and may be empty.
func (r *resource) encodeObject(name, value, half, version string) []byte {
	metadata := map[string]any{"name": name, "labels": map[string]string{valueLabel: value, halfLabel: half}}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	return mustJSON(map[string]any{"apiVersion": r.version, "kind": r.kind, "metadata": metadata})
}

// mustJSON returns v as JSON. It panics if v cannot be encoded.
func mustJSON(v any) []byte {
	encoded, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return encoded
}

const (
	namespacesPath  = "/api/v1/namespaces"
	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
)

// metadata returns metadata with the label by which Remove finds the run.
func (f *fixture) metadata(name string) map[string]any {
	return map[string]any{"name": name, "labels": map[string]string{runLabel: f.run}}
}

// encodeDefinition returns the definition of the custom resource as JSON.
func (f *fixture) encodeDefinition() []byte {
	return mustJSON(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": f.metadata("registers." + f.group),
		"spec": map[string]any{
			"group": f.group, "scope": "Namespaced",
			"names": map[string]any{"plural": "registers", "singular": "register", "kind": "Register", "listKind": "RegisterList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
			}},
		},
	})
}

// create creates the namespace and the definition at the first server, and waits until every
// server serves both resources. It sets mayExist, also if it returns an error.
func (f *fixture) create(ctx context.Context, servers []*server) error {
	namespace := mustJSON(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": f.metadata(f.namespace)})
	err := servers[0].createObject(ctx, namespacesPath, namespace)
	refused := (*refusal)(nil)
	if f.mayExist = !errors.As(err, &refused) || refused.status >= http.StatusInternalServerError; err != nil {
		return fmt.Errorf("create namespace %s: %w", f.namespace, err)
	}
	if err := servers[0].createObject(ctx, definitionsPath, f.encodeDefinition()); err != nil {
		return fmt.Errorf("create definition registers.%s: %w", f.group, err)
	}
	ctx, cancel := context.WithTimeout(ctx, fixtureTimeout)
	defer cancel()
	for _, s := range servers {
		for i := range f.resources {
			if err := s.awaitServed(ctx, f.resources[i].collection); err != nil {
				return err
			}
		}
	}
	return nil
}

// fixtureTimeout bounds the time until a server serves a new definition, and each other step of
// creating and removing a fixture.
const fixtureTimeout = time.Minute

// awaitServed waits until a LIST succeeds a few times in a row. Once is not enough: an address
// may be of several servers.
func (s *server) awaitServed(ctx context.Context, collection string) error {
	const tries = 3
	return repeat(ctx, func() (bool, error) {
		for range tries {
			got, err := s.call(ctx, http.MethodGet, collection, nil, nil, nil)
			switch {
			case got.status == http.StatusOK && err == nil:
				continue
			case err == nil && !mayServeLater(got.status):
				return false, fmt.Errorf("list %s%s: %w", s.base, collection, got.refusal())
			case got.status == http.StatusNotFound:
				err = errors.New("is it a server of another cluster?")
			case err == nil:
				err = got.refusal()
			}
			return true, fmt.Errorf("%s does not serve %s within %s: %w", s.base, collection, fixtureTimeout, err)
		}
		return false, nil
	})
}

// mayServeLater reports whether a server that answered with a status may serve the resource in
// a moment.
func mayServeLater(status int) bool {
	return status == http.StatusNotFound || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

// createObject creates an object. After an answer that came too late, or one of 500 and above,
// the object may exist or not, and createObject tries again. Then a conflict is a success.
func (s *server) createObject(ctx context.Context, path string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, fixtureTimeout)
	defer cancel()
	isUnknown := false
	return repeat(ctx, func() (bool, error) {
		got, err := s.call(ctx, http.MethodPost, path, nil, jsonHeader(), body)
		if err == nil && (got.status == http.StatusCreated || isUnknown && got.status == http.StatusConflict) {
			return false, nil
		}
		isUnknown = errors.Is(err, context.DeadlineExceeded) || got.status >= http.StatusInternalServerError
		switch {
		case err != nil:
			return isUnknown, err
		case got.status == http.StatusUnauthorized || got.status == http.StatusForbidden:
			return false, fmt.Errorf("%w: give a kubeconfig of a user with the rights that docs/verify.md lists", got.refusal())
		default:
			return isUnknown, got.refusal()
		}
	})
}

// jsonHeader returns the header of a request with JSON as its body.
func jsonHeader() http.Header { return http.Header{"Content-Type": {"application/json"}} }

// remove deletes the definition, the namespace and the leases. It sends all requests at once,
// since a server that cannot read may take ten seconds for each. Where no controller empties
// namespaces, at least the leases are gone: an error of that deletion is ignored.
func (f *fixture) remove(ctx context.Context, s *server) error {
	paths := []string{definitionsPath + "/registers." + f.group, namespacesPath + "/" + f.namespace}
	errs := make([]error, len(paths))
	var removing sync.WaitGroup
	for i, path := range paths {
		removing.Go(func() { errs[i] = s.deletePath(ctx, path) })
	}
	removing.Go(func() { _ = s.deletePath(ctx, f.resources[0].collection) }) // the leases
	removing.Wait()
	return errors.Join(errs...)
}

// deletePath deletes an object, or all objects of a collection. An absent one is not an error.
func (s *server) deletePath(ctx context.Context, path string) error {
	got, err := s.call(ctx, http.MethodDelete, path, nil, nil, nil)
	if err == nil && got.status != http.StatusOK && got.status != http.StatusNotFound && got.status != http.StatusAccepted {
		err = got.refusal()
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", path, err)
	}
	return nil
}
