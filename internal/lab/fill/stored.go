package fill

import (
	"bytes"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// Object is a generated object: a typed built-in object, a definition or an
// unstructured custom object. Its apiVersion and kind are set.
type Object interface {
	runtime.Object
	metav1.Object
}

// EncodeStored returns the value that a Kubernetes API server without encryption at
// rest stores in etcd for obj. The value is the protobuf envelope around the
// versioned object, without a resource version. The apiVersion and kind of obj must
// be set. EncodeStored does not change obj. The caller owns the returned bytes.
func EncodeStored(obj Object) ([]byte, error) {
	if gvk := obj.GetObjectKind().GroupVersionKind(); gvk.Kind == "" || gvk.Version == "" {
		return nil, fmt.Errorf("encode object %s: apiVersion and kind are not set on %T", obj.GetName(), obj)
	}
	if obj.GetResourceVersion() != "" {
		return nil, fmt.Errorf("encode object %s: its resource version is set; stored objects have none", obj.GetName())
	}
	var buf bytes.Buffer
	// The creater and typer may be nil, because only decoding uses them.
	if err := protobuf.NewSerializer(nil, nil).Encode(obj, &buf); err != nil {
		return nil, fmt.Errorf("encode object %s: %w", obj.GetName(), err)
	}
	return buf.Bytes(), nil
}

// StorageKey returns the etcd key under which a Kubernetes API server stores obj.
// prefix is the server's key prefix, such as "/registry".
//
// Upstream: k8s.io/apiserver/pkg/registry/generic/registry.NamespaceKeyFunc; compare at each upgrade.
func StorageKey(prefix string, obj Object) (string, error) {
	kind, err := kindOf(obj)
	if err != nil {
		return "", err
	}
	return storageKey(prefix, kind.storageDir(), obj.GetNamespace(), obj.GetName()), nil
}

// storageKey joins the parts of a key.
func storageKey(prefix, dir, namespace, name string) string {
	key := "/" + strings.Trim(prefix, "/") + "/" + dir + "/"
	if namespace != "" {
		key += namespace + "/"
	}
	return key + name
}

func kindOf(obj Object) (Kind, error) {
	switch obj.(type) {
	case *corev1.Namespace:
		return KindNamespace, nil
	case *corev1.ServiceAccount:
		return KindServiceAccount, nil
	case *corev1.Node:
		return KindNode, nil
	case *corev1.ConfigMap:
		return KindConfigMap, nil
	case *corev1.Secret:
		return KindSecret, nil
	case *corev1.Pod:
		return KindPod, nil
	case *corev1.Service:
		return KindService, nil
	case *corev1.Event:
		return KindEvent, nil
	case *appsv1.Deployment:
		return KindDeployment, nil
	case *appsv1.ReplicaSet:
		return KindReplicaSet, nil
	case *discoveryv1.EndpointSlice:
		return KindEndpointSlice, nil
	case *coordinationv1.Lease:
		return KindLease, nil
	}
	return "", fmt.Errorf("find kind of object: fill does not store %T", obj)
}
