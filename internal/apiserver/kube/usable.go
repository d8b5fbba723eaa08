package kube

import (
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
)

// Usable returns a check of the objects of a kind, if the server can do without some of them. The
// check returns an error for an object that the API would not have let in, and that Kubernetes'
// controllers must not see. Without the object, a right or a default is missing, or requests have
// another priority. Or another server's API is not served, or objects that name it are refused.
//
// Usable returns nil for other kinds. Configurations of admission are among them: without one,
// what it forbids would be allowed. Of these kinds the server keeps what it has read before, and
// waits at its start, as in Kubernetes.
func Usable(gr schema.GroupResource) func(key string, obj runtime.Object) error {
	switch gr.Group {
	case rbacv1.GroupName, flowcontrolv1.GroupName, apiregistration.GroupName:
		return checkPlace
	}
	switch gr {
	case corev1.Resource("namespaces"), schedulingv1.Resource("priorityclasses"), storagev1.Resource("storageclasses"),
		networkingv1.Resource("ingressclasses"), nodev1.Resource("runtimeclasses"):
		return checkPlace
	}
	return nil
}

// checkPlace returns an error if an object's name and namespace are not its key. It also returns
// one if the name of an APIService is not its version and group: the aggregator relies on that.
func checkPlace(key string, obj runtime.Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("read metadata of %s: %w", key, err)
	}
	if place := path.Join(m.GetNamespace(), m.GetName()); place != key {
		return fmt.Errorf("the object at %s is named %s", key, place)
	}
	if service, ok := obj.(*apiregistration.APIService); ok && service.Name != service.Spec.Version+"."+service.Spec.Group {
		return fmt.Errorf("the APIService %s is for version %q of group %q", key, service.Spec.Version, service.Spec.Group)
	}
	return nil
}
