package replay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// removeWrites deletes the namespaces that replays have made, with what is in them. It returns
// how many there were. It does the work of the namespace controller, which may not run.
func removeWrites(ctx context.Context, s *server) (int, error) {
	var list struct {
		Items []struct {
			Metadata struct {
				Name   string            `json:"name"`
				Labels map[string]string `json:"labels"`
			} `json:"metadata"`
		} `json:"items"`
	}
	if err := s.getJSON(ctx, "/api/v1/namespaces?labelSelector="+writeLabel, &list); err != nil {
		return 0, err
	}
	w := &writer{server: s}
	w.mu.versions = map[string]string{}
	removed := 0
	var errs []error
	for i := range list.Items {
		m := &list.Items[i].Metadata
		if m.Labels[writeLabel] == "" {
			continue // a server that ignores selectors must not have more removed
		}
		if err := w.removeNamespace(ctx, m.Name); err != nil {
			errs = append(errs, fmt.Errorf("remove namespace %s: %w", m.Name, err))
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}

func (w *writer) removeNamespace(ctx context.Context, name string) error {
	for resource := range writables {
		api := "/api/v1"
		switch resource {
		case "events.events.k8s.io":
			continue // the same objects as events
		case "leases.coordination.k8s.io":
			api = "/apis/coordination.k8s.io/v1"
		case "endpointslices.discovery.k8s.io":
			api = "/apis/discovery.k8s.io/v1"
		case "deployments.apps", "replicasets.apps":
			api = "/apis/apps/v1"
		}
		o := object{resource: resource, api: api, namespace: name}
		if _, err := w.do(ctx, http.MethodDelete, o.collection()+"?gracePeriodSeconds=0", "", "", nil, http.StatusNotFound); err != nil {
			return err
		}
	}
	const namespaces = "/api/v1/namespaces/"
	for _, path := range []string{namespaces + name + "/serviceaccounts/default", namespaces + name} {
		if _, err := w.do(ctx, http.MethodDelete, path, "", "", nil, http.StatusNotFound); err != nil {
			return err
		}
	}
	finalized := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q},"spec":{"finalizers":[]}}`, name)
	_, err := w.do(ctx, http.MethodPut, namespaces+name+"/finalize", "", "", finalized, http.StatusNotFound)
	return err
}
