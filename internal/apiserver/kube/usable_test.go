package kube

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	"k8s.io/kubernetes/pkg/apis/rbac"
)

// TestUsable checks which objects controllers may see: those that are at the key of their name.
// The aggregator takes the name of an APIService apart.
func TestUsable(t *testing.T) {
	service := func(name, version, group string) runtime.Object {
		return &apiregistration.APIService{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: apiregistration.APIServiceSpec{Version: version, Group: group}}
	}
	services, roles := schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}, schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "roles"}
	for _, c := range []struct {
		gr     schema.GroupResource
		key    string
		obj    runtime.Object
		usable bool
	}{
		{services, "v1.a.example", service("v1.a.example", "v1", "a.example"), true},
		{services, "v1.", service("v1.", "v1", ""), true},
		{services, "v1.a.example", service("", "v1", "a.example"), false},
		{services, "v1.a.example", service("v1.b.example", "v1", "b.example"), false},
		{services, "odd", service("odd", "", ""), false},
		{services, "v1.a.example", service("v1.a.example", "v2", "a.example"), false},
		{roles, "ns/a", &rbac.Role{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns"}}, true},
		{roles, "ns/a", &rbac.Role{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "other"}}, false},
		{roles, "ns/a", &rbac.Role{}, false},
	} {
		if err := Usable(c.gr)(c.key, c.obj); (err == nil) != c.usable {
			t.Errorf("%s at %s: %v, want usable: %v", c.gr, c.key, err, c.usable)
		}
	}
	for _, gr := range []schema.GroupResource{{Resource: "services"}, {Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}} {
		if Usable(gr) != nil {
			t.Errorf("the server would do without %s", gr)
		}
	}
}
