package provision

import (
	"testing"
)

// TestWorkload checks that all Deployments together have the pods of the plan, on nodes of the run.
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
