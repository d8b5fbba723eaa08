package fill

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

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

// kindOf returns the kind of an object that can be written straight into etcd.
func kindOf(obj Object) (Kind, error) {
	kind := Kind(plural(obj.GetObjectKind().GroupVersionKind().Kind))
	if kind.custom() || !slices.Contains(Kinds(), kind) {
		return "", fmt.Errorf("find kind of object: fill does not store %T", obj)
	}
	return kind, nil
}
