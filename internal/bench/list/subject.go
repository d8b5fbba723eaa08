package list

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/bench/testbed"
	"github.com/millrace/millrace/internal/fill"
)

// findSubject looks at the first pods of a cluster. It is asked once a run, so
// that every server gets the same requests.
func findSubject(ctx context.Context, t *testbed.Target, labelSelector string) (subject, error) {
	var list struct {
		Items []testbed.PodSample `json:"items"`
	}
	if err := t.Get(ctx, "/api/v1/pods?limit=50", &list); err != nil {
		return subject{}, fmt.Errorf("find subject: %w", err)
	}
	s := chooseSubject(list.Items)
	if labelSelector != "" {
		s.LabelSelector = labelSelector
	}
	return s, nil
}

// chooseSubject takes the first pod that has a node, else the first.
func chooseSubject(pods []testbed.PodSample) subject {
	if len(pods) == 0 {
		return subject{}
	}
	chosen := pods[max(0, slices.IndexFunc(pods, func(p testbed.PodSample) bool { return p.Spec.NodeName != "" }))]
	return subject{
		Namespace:     chosen.Metadata.Namespace,
		Pod:           chosen.Metadata.Name,
		Node:          chosen.Spec.NodeName,
		LabelSelector: chooseLabel(chosen.Metadata.Labels),
	}
}

// chooseLabel prefers the label with which fill marks a 500th of all pods, then
// those that clients really select on.
func chooseLabel(labels map[string]string) string {
	keys := append([]string{fill.LabelShare, "app", "app.kubernetes.io/name", "k8s-app"}, slices.Sorted(maps.Keys(labels))...)
	for _, key := range keys {
		if value, ok := labels[key]; ok {
			return key + "=" + value
		}
	}
	return ""
}
