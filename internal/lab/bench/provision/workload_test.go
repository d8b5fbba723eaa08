package provision

import (
	"context"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/lab/hollow"
)

// TestWorkload checks that Deployments have all pods together, each on a node of the run.
func TestWorkload(t *testing.T) {
	for _, p := range []plan{
		{Name: "x", Pods: 8, PodsOf: podsOfDeployments, PodsPerDeployment: 3}, {Name: "x", Pods: 6, PodsOf: podsOfDeployments, PodsPerDeployment: 3},
		{Name: "x", Pods: 2, PodsOf: podsOfDeployments, PodsPerDeployment: 50}, {Name: "x", Pods: 3, PodsOf: podsOfPods, PodsPerDeployment: 50},
	} {
		w := &workload{plan: &p}
		objects, _ := w.objects()
		if p.PodsOf == podsOfPods {
			if objects != p.Pods || w.pod("a").Spec.NodeSelector["millrace.io/hollow"] != "x" || w.pod("a").Labels["millrace.io/hollow"] != "x" {
				t.Errorf("%+v: %d objects, one is %+v", p, objects, w.pod("a"))
			}
			continue
		}
		pods := 0
		for i := range objects {
			d := w.deployment("a", w.podsOf(i))
			pods += int(*d.Spec.Replicas)
			if *d.Spec.Replicas < 1 || d.Spec.Template.Labels["app"] != d.Spec.Selector.MatchLabels["app"] || d.Spec.Template.Spec.NodeSelector["millrace.io/hollow"] != "x" {
				t.Errorf("%+v: got %+v", p, d)
			}
		}
		if pods != p.Pods {
			t.Errorf("%+v: got %d pods", p, pods)
		}
	}
}

// TestRemoveOnlyOwn checks that objects of others are left, also if a server lists them.
func TestRemoveOnlyOwn(t *testing.T) {
	w := &workload{plan: &plan{Name: "x"}}
	var uids []types.UID
	remove := func(_ context.Context, _ string, opts metav1.DeleteOptions) error {
		uids = append(uids, *opts.Preconditions.UID)
		return apierrors.NewConflict(schema.GroupResource{}, "a", nil)
	}
	for _, meta := range []metav1.ObjectMeta{{UID: "1"}, {UID: "2", Labels: map[string]string{hollow.Label: "y"}}, {UID: "3", Labels: map[string]string{hollow.Label: "x"}}} {
		if err := w.remove(t.Context(), &meta, remove); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(uids, []types.UID{"3"}) {
		t.Errorf("removed %v", uids)
	}
}
