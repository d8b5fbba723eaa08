package list

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/fill"
)

// findSample chooses objects from the first 50 pods of a cluster. The caller must call it once, so
// that every server gets the same requests.
func findSample(ctx context.Context, t *testbed.Target) (sampleObjects, error) {
	var list struct {
		Items []testbed.PodSample `json:"items"`
	}
	if err := t.Get(ctx, "/api/v1/pods?limit=50", &list); err != nil {
		return sampleObjects{}, fmt.Errorf("find a sample pod: %w", err)
	}
	return chooseSample(list.Items), nil
}

// chooseSample returns the first pod that has a node, with the node and a label. If no pod has
// a node, it takes the first pod. It returns the zero value if there are no pods.
func chooseSample(pods []testbed.PodSample) sampleObjects {
	if len(pods) == 0 {
		return sampleObjects{}
	}
	chosen := pods[max(0, slices.IndexFunc(pods, func(p testbed.PodSample) bool { return p.Spec.NodeName != "" }))]
	return sampleObjects{
		Namespace:     chosen.Metadata.Namespace,
		Pod:           chosen.Metadata.Name,
		Node:          chosen.Spec.NodeName,
		LabelSelector: chooseLabel(chosen.Metadata.Labels),
	}
}

// chooseLabel returns a label as a selector, or "" if there are none. It prefers fill.LabelShare, of
// which each value selects a 500th of all pods, then labels that clients often select by.
func chooseLabel(labels map[string]string) string {
	keys := append([]string{fill.LabelShare, "app", "app.kubernetes.io/name", "k8s-app"}, slices.Sorted(maps.Keys(labels))...)
	for _, key := range keys {
		if value, ok := labels[key]; ok {
			return key + "=" + value
		}
	}
	return ""
}
