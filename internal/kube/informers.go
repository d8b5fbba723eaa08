package kube

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace/millrace/internal/storage"
)

// setStoredInformers puts informers of ours into the factory that the server's own
// parts take theirs from. The first to ask decides, so it comes before them.
// Pods are most of what a cluster has, and secrets the largest of what is read.
func setStoredInformers(factory informers.SharedInformerFactory, stored func(schema.GroupResource) *storage.Store) error {
	for resource, empty := range map[string]func() object{
		"pods":    func() object { return &corev1.Pod{} },
		"secrets": func() object { return &corev1.Secret{} },
		// Admission goes by these: nothing may lag between them and the cache.
		"resourcequotas": func() object { return &corev1.ResourceQuota{} },
	} {
		factory.InformerFor(empty(), func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			return newStoredInformer(func() *storage.Store { return stored(schema.GroupResource{Resource: resource}) }, empty)
		})
	}
	if err := factory.Core().V1().Nodes().Informer().SetTransform(slimNode); err != nil {
		return fmt.Errorf("trim nodes in informer: %w", err)
	}
	return nil
}

var _ cache.TransformFunc = slimNode

// slimNode drops what the node authorizer and admission plugins never read.
func slimNode(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	node.ManagedFields = nil
	node.Status.Images, node.Status.VolumesInUse, node.Status.VolumesAttached = nil, nil, nil
	return node, nil
}
