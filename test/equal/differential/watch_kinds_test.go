package differential

import (
	"fmt"
	"maps"

	"github.com/millrace/millrace/test/support/etcdtruth"
)

// watchedKind is a resource that watch scripts write.
type watchedKind struct {
	etcdtruth.Resource
	// roots are the paths of the API's versions. Writes use the first.
	roots      []string
	namespaced bool
	apiVersion string
	kind       string
	// body returns the fields of a new object besides its metadata.
	body func(gen *requestGenerator, ns string) map[string]any
	// touch returns a random merge patch that does not change labels.
	touch func(gen *requestGenerator) map[string]any
	// selectors are the selectable fields with values to select by.
	selectors map[string][]string
}

func (k *watchedKind) listPath(root, ns string) string {
	if ns == "" {
		return root + "/" + k.Name
	}
	return root + "/namespaces/" + ns + "/" + k.Name
}

func spec(fields map[string]any) func(*requestGenerator, string) map[string]any {
	return func(*requestGenerator, string) map[string]any { return map[string]any{"spec": maps.Clone(fields)} }
}

func number(gen *requestGenerator) string { return fmt.Sprint(gen.IntN(1000)) }

var podTemplate = map[string]any{
	"metadata": map[string]any{"labels": map[string]any{"app": "deployment"}},
	"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": "registry.example.com/main:1"}}},
}

// watchedKinds are the kinds that scripts write and watch. They have no other
// writers.
var watchedKinds = []*watchedKind{
	{
		Resource: etcdtruth.Resource{Name: "configmaps", Prefix: "/registry/configmaps/"}, roots: []string{"/api/v1"}, namespaced: true, apiVersion: "v1", kind: "ConfigMap",
		body: func(gen *requestGenerator, _ string) map[string]any {
			return map[string]any{"data": map[string]any{"key": "<&> " + number(gen)}}
		},
		touch: func(gen *requestGenerator) map[string]any {
			return map[string]any{"data": map[string]any{"key": number(gen)}}
		},
	},
	{
		Resource: etcdtruth.Resource{Name: "secrets", Prefix: "/registry/secrets/", Fields: []string{"type=Opaque"}}, roots: []string{"/api/v1"}, namespaced: true, apiVersion: "v1", kind: "Secret",
		body: func(gen *requestGenerator, _ string) map[string]any {
			return map[string]any{"type": pick(gen, "Opaque", "example.com/x"), "stringData": map[string]any{"token": number(gen)}}
		},
		touch: func(gen *requestGenerator) map[string]any {
			return map[string]any{"stringData": map[string]any{"token": number(gen)}}
		},
		selectors: map[string][]string{"type": {"Opaque", "example.com/x", ""}},
	},
	{
		Resource: etcdtruth.Resource{Name: "pods", Prefix: "/registry/pods/", Fields: []string{"spec.nodeName", "status.phase=Pending", "spec.restartPolicy=Always"}}, roots: []string{"/api/v1"}, namespaced: true, apiVersion: "v1", kind: "Pod",
		body: func(gen *requestGenerator, _ string) map[string]any {
			return map[string]any{"spec": map[string]any{"restartPolicy": pick(gen, "Always", "Never"), "containers": []any{map[string]any{"name": "main", "image": "registry.example.com/main:" + number(gen)}}}}
		},
		touch: func(gen *requestGenerator) map[string]any {
			return map[string]any{"metadata": map[string]any{"annotations": map[string]any{"note": number(gen)}}}
		},
		selectors: map[string][]string{"spec.nodeName": {"node-1", "node-2", ""}, "status.phase": {"Pending", "Running", "Succeeded"}, "spec.restartPolicy": {"Always", "Never"}},
	},
	{
		Resource: etcdtruth.Resource{Name: "nodes", Prefix: "/registry/minions/", Fields: []string{"spec.unschedulable=false"}}, roots: []string{"/api/v1"}, apiVersion: "v1", kind: "Node",
		body: func(gen *requestGenerator, _ string) map[string]any {
			return map[string]any{"spec": map[string]any{"unschedulable": gen.once(2)}}
		},
		touch: func(gen *requestGenerator) map[string]any {
			return map[string]any{"spec": map[string]any{"unschedulable": gen.once(2)}}
		},
		selectors: map[string][]string{"spec.unschedulable": {"true", "false"}},
	},
	{
		Resource: etcdtruth.Resource{Name: "services", Prefix: "/registry/services/specs/", Fields: []string{"spec.type=ClusterIP", "spec.clusterIP"}}, roots: []string{"/api/v1"}, namespaced: true, apiVersion: "v1", kind: "Service",
		body: func(gen *requestGenerator, _ string) map[string]any {
			if gen.once(2) {
				return map[string]any{"spec": map[string]any{"type": "ExternalName", "externalName": "elsewhere.example.com"}}
			}
			return map[string]any{"spec": map[string]any{"clusterIP": "None", "ports": []any{map[string]any{"port": 80}}}}
		},
		touch: func(gen *requestGenerator) map[string]any {
			return map[string]any{"metadata": map[string]any{"annotations": map[string]any{"note": number(gen)}}}
		},
		selectors: map[string][]string{"spec.type": {"ExternalName", "ClusterIP"}, "spec.clusterIP": {"None", ""}},
	},
	{
		Resource: etcdtruth.Resource{Name: "leases", Prefix: "/registry/leases/"}, roots: []string{"/apis/coordination.k8s.io/v1"}, namespaced: true, apiVersion: "coordination.k8s.io/v1", kind: "Lease",
		body: spec(map[string]any{"holderIdentity": "holder", "leaseDurationSeconds": 5, "renewTime": "2024-01-01T00:00:00.123456Z"}),
		touch: func(gen *requestGenerator) map[string]any {
			return map[string]any{"spec": map[string]any{"holderIdentity": number(gen)}}
		},
	},
	{
		Resource: etcdtruth.Resource{
			Name: "events", Prefix: "/registry/events/", Fields: []string{"involvedObject.kind", "involvedObject.name", "reason", "type"},
			Aliases: map[string]string{"regarding.kind": "involvedObject.kind", "regarding.name": "involvedObject.name"},
		},
		roots: []string{"/api/v1", "/apis/events.k8s.io/v1"}, namespaced: true, apiVersion: "v1", kind: "Event",
		body: func(gen *requestGenerator, ns string) map[string]any {
			return map[string]any{
				"involvedObject": map[string]any{"kind": "Pod", "namespace": ns, "name": pick(gen, "pod-1", "pod-2")}, "type": pick(gen, "Normal", "Warning"),
				"reason": pick(gen, "Started", "Killing"), "message": "<m> " + number(gen), "count": 1, "source": map[string]any{"component": "kubelet"},
				"firstTimestamp": "2024-01-01T00:00:00Z", "lastTimestamp": "2024-01-02T00:00:00Z",
			}
		},
		touch:     func(gen *requestGenerator) map[string]any { return map[string]any{"count": 2 + gen.IntN(1000)} },
		selectors: map[string][]string{"reason": {"Started", "Killing"}, "type": {"Normal", "Warning"}, "involvedObject.name": {"pod-1", "absent"}, "involvedObject.kind": {"Pod"}},
	},
	{
		Resource: etcdtruth.Resource{Name: "deployments", Prefix: "/registry/deployments/"}, roots: []string{"/apis/apps/v1"}, namespaced: true, apiVersion: "apps/v1", kind: "Deployment",
		body: spec(map[string]any{"replicas": 3, "selector": map[string]any{"matchLabels": map[string]any{"app": "deployment"}}, "template": podTemplate}),
		touch: func(gen *requestGenerator) map[string]any {
			return map[string]any{"spec": map[string]any{"replicas": gen.IntN(1000)}}
		},
	},
	{
		Resource: etcdtruth.Resource{Name: "horizontalpodautoscalers", Prefix: "/registry/horizontalpodautoscalers/"}, roots: []string{"/apis/autoscaling/v2", "/apis/autoscaling/v1"}, namespaced: true, apiVersion: "autoscaling/v2", kind: "HorizontalPodAutoscaler",
		body: spec(map[string]any{"maxReplicas": 5, "scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "deployment-1"}, "metrics": []any{
			map[string]any{"type": "Resource", "resource": map[string]any{"name": "memory", "target": map[string]any{"type": "Utilization", "averageUtilization": 70}}},
		}}),
		touch: func(gen *requestGenerator) map[string]any {
			return map[string]any{"spec": map[string]any{"maxReplicas": 1 + gen.IntN(1000)}}
		},
	},
	{
		Resource: etcdtruth.Resource{Name: "widgets", Prefix: "/registry/example.com/widgets/", Fields: []string{"spec.color"}}, roots: []string{"/apis/example.com/v1", "/apis/example.com/v1beta1"}, namespaced: true, apiVersion: "example.com/v1", kind: "Widget",
		body: func(gen *requestGenerator, _ string) map[string]any {
			return map[string]any{"spec": map[string]any{"color": pick(gen, "red", "green"), "replicas": 1}}
		},
		touch: func(gen *requestGenerator) map[string]any {
			return map[string]any{"spec": map[string]any{"color": pick(gen, "red", "green")}}
		},
		selectors: map[string][]string{"spec.color": {"red", "green"}},
	},
}

func watchedResources() []etcdtruth.Resource {
	var all []etcdtruth.Resource
	for _, k := range watchedKinds {
		all = append(all, k.Resource)
	}
	return all
}
