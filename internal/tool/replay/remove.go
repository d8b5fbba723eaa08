package replay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// removeWrites deletes the namespaces that replays have made, with all their objects. It returns
// the number of namespaces that it removed, even with an error.
func removeWrites(ctx context.Context, s *server) (int, error) {
	var list metav1.PartialObjectMetadataList
	if err := s.getJSON(ctx, "/api/v1/namespaces?labelSelector="+writeLabel, &list); err != nil {
		return 0, err
	}
	w := &writer{server: s}
	w.mu.versions = map[string]string{}
	removed := 0
	var errs []error
	for i := range list.Items {
		m := &list.Items[i]
		if m.Labels[writeLabel] == "" || !strings.HasPrefix(m.Name, namespacePrefix) {
			continue // other namespaces may have the label, and a server may ignore selectors
		}
		if err := w.removeNamespace(ctx, m.Name, string(m.UID)); err != nil {
			errs = append(errs, fmt.Errorf("remove namespace %s: %w", m.Name, err))
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}

// removeNamespace deletes a namespace, the objects in it and its finalizers. It does the work of
// the namespace controller, which may not run. uid, unless it is empty, must be the namespace's.
func (w *writer) removeNamespace(ctx context.Context, name, uid string) error {
	const namespaces = "/api/v1/namespaces/"
	var opts []byte
	if uid != "" {
		opts = fmt.Appendf(nil, `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":%q}}`, uid)
	}
	if _, err := w.do(ctx, http.MethodDelete, namespaces+name, "", "", opts, http.StatusNotFound); err != nil {
		return err
	}
	// From here on the server admits no new objects in the namespace.
	for resource, known := range writables {
		if resource == "events.events.k8s.io" {
			continue // the same objects as events
		}
		o := object{resource: resource, api: known.api, namespace: name}
		if _, err := w.do(ctx, http.MethodDelete, o.collectionPath()+"?gracePeriodSeconds=0", "", "", nil, http.StatusNotFound); err != nil {
			return err
		}
	}
	if _, err := w.do(ctx, http.MethodDelete, namespaces+name+"/serviceaccounts/default", "", "", nil, http.StatusNotFound); err != nil {
		return err
	}
	finalized := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q},"spec":{"finalizers":[]}}`, name)
	_, err := w.do(ctx, http.MethodPut, namespaces+name+"/finalize", "", "", finalized, http.StatusNotFound)
	return err
}
