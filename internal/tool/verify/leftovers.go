package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// runLabel is on the namespace and the definition of a run. Its value is the run's id.
const runLabel = "millrace.io/verify"

// Remove deletes the fixtures of all runs in a server's cluster, and returns the number of runs.
// Runs that were killed leave fixtures. A run that still goes on loses its fixture, too.
func Remove(ctx context.Context, config *rest.Config) (int, error) {
	s, err := newServer(0, config, defaultTimeout)
	if err != nil {
		return 0, err
	}
	var runs []string
	for _, path := range []string{namespacesPath, definitionsPath} {
		found, err := s.runsOf(ctx, path)
		if err != nil {
			return 0, fmt.Errorf("look for what runs have left: %w", err)
		}
		runs = append(runs, found...)
	}
	slices.Sort(runs)
	runs = slices.Compact(runs)
	var errs []error
	for _, run := range runs {
		errs = append(errs, newFixture(run).remove(ctx, s))
	}
	return len(runs), errors.Join(errs...)
}

// runsOf returns the ids of the runs that have created objects of a collection. An object counts
// if it has the label runLabel, and the id is part of its name. A server that ignores selectors,
// or somebody else's label, must not make Remove delete anything else.
func (s *server) runsOf(ctx context.Context, collection string) (runs []string, err error) {
	got, err := s.call(ctx, http.MethodGet, collection, url.Values{"labelSelector": {runLabel}}, jsonHeader(), nil)
	if err != nil {
		return nil, err
	}
	if got.status != http.StatusOK {
		return nil, fmt.Errorf("list %s: %w", collection, got.refusal())
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(got.body, &list); err != nil {
		return nil, fmt.Errorf("read %s: %w", collection, err)
	}
	for i := range list.Items {
		m := &list.Items[i]
		if run := m.Labels[runLabel]; run != "" && strings.Contains(m.Name, run) {
			runs = append(runs, run)
		}
	}
	return runs, nil
}
