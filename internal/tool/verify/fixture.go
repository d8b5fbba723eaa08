package verify

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// These labels are on every object.
const (
	valueLabel = "value"
	halfLabel  = "half"
)

var halves = []string{"a", "b"}

// resource is one of those whose objects are written and read.
type resource struct {
	name, kind, version string
	// collection is the path of the objects of the namespace.
	collection string
}

// fixture is what a run creates: a namespace, and a definition.
type fixture struct {
	run              string
	namespace, group string
	resources        []resource
	// made says that there may be something to remove.
	made bool
}

// newFixture names what a run creates. A built-in resource and a custom one are verified:
// servers read them in different ways.
func newFixture(run string) *fixture {
	f := &fixture{run: run, namespace: "millrace-verify-" + run, group: run + ".verify.millrace.dev"}
	collection := func(api, name string) string { return api + "/namespaces/" + f.namespace + "/" + name }
	f.resources = []resource{
		{"leases", "Lease", "coordination.k8s.io/v1", collection("/apis/coordination.k8s.io/v1", "leases")},
		{"registers", "Register", f.group + "/v1", collection("/apis/"+f.group+"/v1", "registers")},
	}
	return f
}

func (f *fixture) resource(name string) *resource {
	for i := range f.resources {
		if f.resources[i].name == name {
			return &f.resources[i]
		}
	}
	return nil
}

func (r *resource) object(name, value, half, version string) []byte {
	metadata := map[string]any{"name": name, "labels": map[string]string{valueLabel: value, halfLabel: half}}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	return mustJSON(map[string]any{"apiVersion": r.version, "kind": r.kind, "metadata": metadata})
}

// mustJSON encodes what always can be encoded.
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

// metadata is that of an object by which Remove finds the run.
func (f *fixture) metadata(name string) map[string]any {
	return map[string]any{"name": name, "labels": map[string]string{runLabel: f.run}}
}

func (f *fixture) definition() []byte {
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

// create makes the namespace and the definition through the first server, and waits until
// every server serves both.
func (f *fixture) create(ctx context.Context, servers []*server) error {
	namespace := mustJSON(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": f.metadata(f.namespace)})
	err := servers[0].post(ctx, namespacesPath, namespace)
	refused := (*refusal)(nil)
	if f.made = !errors.As(err, &refused) || refused.status >= http.StatusInternalServerError; err != nil {
		return fmt.Errorf("create namespace %s: %w", f.namespace, err)
	}
	if err := servers[0].post(ctx, definitionsPath, f.definition()); err != nil {
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

// fixtureTimeout bounds how long a server may take to serve a new definition.
const fixtureTimeout = time.Minute

// awaitServed waits until a LIST succeeds a few times in a row: behind one address there may
// be several servers.
func (s *server) awaitServed(ctx context.Context, collection string) error {
	const inRow = 3
	return repeat(ctx, func() (bool, error) {
		for range inRow {
			got, err := s.call(ctx, http.MethodGet, collection, nil, nil, nil)
			switch {
			case got.status == http.StatusOK && err == nil:
				continue
			case err == nil && !comesLater(got.status):
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

// explain says what to do about a server that does not answer.
func (s *server) explain(err error) error {
	if untrusted := (*tls.CertificateVerificationError)(nil); errors.As(err, &untrusted) {
		return fmt.Errorf("%s: %w: give a kubeconfig with its authority", s.base, untrusted)
	}
	return fmt.Errorf("%s does not answer: %w", s.base, err)
}

// comesLater reports whether a server that answers so may serve the resource in a moment.
func comesLater(status int) bool {
	return status == http.StatusNotFound || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

// post creates an object. After an answer that came too late, or tells of trouble, the object
// may be there or not, and it tries again.
func (s *server) post(ctx context.Context, path string, body []byte) error {
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

func jsonHeader() http.Header { return http.Header{"Content-Type": {"application/json"}} }

// remove deletes what create made, and the objects. It sends all requests at once: a server that
// cannot read may take ten seconds for each.
func (f *fixture) remove(ctx context.Context, s *server) error {
	paths := []string{definitionsPath + "/registers." + f.group, namespacesPath + "/" + f.namespace}
	errs := make([]error, len(paths))
	var removing sync.WaitGroup
	for i, path := range paths {
		removing.Go(func() { errs[i] = s.remove(ctx, path) })
	}
	// Where no controller empties namespaces, objects go at least.
	removing.Go(func() { _ = s.remove(ctx, f.resources[0].collection) })
	removing.Wait()
	return errors.Join(errs...)
}

// remove deletes an object, or all of a collection.
func (s *server) remove(ctx context.Context, path string) error {
	got, err := s.call(ctx, http.MethodDelete, path, nil, nil, nil)
	if err == nil && got.status != http.StatusOK && got.status != http.StatusNotFound && got.status != http.StatusAccepted {
		err = got.refusal()
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", path, err)
	}
	return nil
}
