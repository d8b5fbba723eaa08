package informers

import (
	"fmt"
	"math/rand"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind is a resource that the test writes and mirrors.
type kind struct {
	resource schema.GroupVersionResource
	name     string
	// object has the Go type of the kind. It is nil for the custom resource,
	// which has no Go type.
	object     runtime.Object
	namespaced bool
	// selections only apply to this kind.
	selections []selection
}

// selection is a pair of selectors. An empty selector selects everything.
type selection struct{ labels, fields string }

func core(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: resource}
}

var (
	pods = kind{core("pods"), "Pod", &corev1.Pod{}, true, []selection{
		{"", "spec.nodeName=node-1"}, {"", "spec.nodeName="}, {"team=a", "spec.nodeName=node-2"}, {"", "spec.nodeName!=node-0,status.phase=Pending"},
	}}
	configMaps = kind{core("configmaps"), "ConfigMap", &corev1.ConfigMap{}, true, nil}
	secrets    = kind{core("secrets"), "Secret", &corev1.Secret{}, true, []selection{{"", "type=Opaque"}, {"team", "type!=Opaque"}}}
	nodes      = kind{core("nodes"), "Node", &corev1.Node{}, false, []selection{{"", "spec.unschedulable=true"}}}
	widgets    = kind{schema.GroupVersionResource{Group: "millrace.example", Version: "v1", Resource: "widgets"}, "Widget", nil, true, nil}
)

func kinds() []kind { return []kind{pods, configMaps, secrets, nodes, widgets} }

func (k kind) gvk() schema.GroupVersionKind { return k.resource.GroupVersion().WithKind(k.name) }

// teams and hosts return the values that selectors use and that writes change.
func teams() []string { return []string{"a", "b", "c"} }

const (
	hosts      = 4
	namespaces = 4
)

func namespace(n int) string { return fmt.Sprintf("ns-%d", n%namespaces) }

func team(r *rand.Rand) string { return teams()[r.Intn(len(teams()))] }

func host(r *rand.Rand) string { return fmt.Sprintf("node-%d", r.Intn(hosts)) }

// make returns a new object for a slot.
func (k kind) make(at slot, r *rand.Rand) *unstructured.Unstructured {
	o := map[string]any{}
	switch k.name {
	case "Pod":
		spec := map[string]any{
			"automountServiceAccountToken": false, "terminationGracePeriodSeconds": int64(0),
			"containers": []any{map[string]any{"name": "c", "image": "example.com/c"}},
		}
		if r.Intn(2) == 0 {
			spec["nodeName"] = host(r)
		}
		o["spec"] = spec
	case "ConfigMap":
		o["data"] = map[string]any{"made": fmt.Sprint(r.Int())}
	case "Secret":
		o["type"] = []string{"Opaque", "millrace.example/other"}[r.Intn(2)]
		o["stringData"] = map[string]any{"made": fmt.Sprint(r.Int())}
	case "Node":
		o["spec"] = map[string]any{"unschedulable": r.Intn(2) == 0}
	case "Widget":
		o["spec"] = map[string]any{"color": fmt.Sprint(r.Int())}
	}
	u := &unstructured.Unstructured{Object: o}
	u.SetGroupVersionKind(k.gvk())
	u.SetNamespace(at.namespace)
	u.SetName(at.name)
	u.SetLabels(map[string]string{"team": team(r)})
	return u
}

// fieldsOf returns the selectable fields that the tests use.
func fieldsOf(u *unstructured.Unstructured) fields.Set {
	set := fields.Set{"metadata.name": u.GetName(), "metadata.namespace": u.GetNamespace()}
	switch u.GetKind() {
	case "Pod":
		set["spec.nodeName"], _, _ = unstructured.NestedString(u.Object, "spec", "nodeName")
		set["status.phase"], _, _ = unstructured.NestedString(u.Object, "status", "phase")
	case "Secret":
		set["type"], _, _ = unstructured.NestedString(u.Object, "type")
	case "Node":
		off, _, _ := unstructured.NestedBool(u.Object, "spec", "unschedulable")
		set["spec.unschedulable"] = fmt.Sprint(off)
	}
	return set
}
