package kube

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace/millrace/internal/tier/storage"
)

// setStoredInformers registers our informers with the factory that the server's
// components use, and makes the informer of nodes drop large fields. The first registration
// of a kind counts, so it must come before theirs. Pods are most of what a cluster stores,
// and secrets hold most of the bytes that these components need.
func setStoredInformers(factory informers.SharedInformerFactory, stored func(schema.GroupResource) *storage.Store) error {
	for resource, read := range map[string]objectReader{
		"pods":    {empty: func() object { return &corev1.Pod{} }, forHandlers: graphPod},
		"secrets": {empty: func() object { return &corev1.Secret{} }},
		// Admission depends on quotas: they must not lag the cache.
		"resourcequotas": {empty: func() object { return &corev1.ResourceQuota{} }},
	} {
		factory.InformerFor(read.empty(), func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			return newStoredInformer(func() *storage.Store { return stored(schema.GroupResource{Resource: resource}) }, read)
		})
	}
	if err := factory.Core().V1().Nodes().Informer().SetTransform(slimNode); err != nil {
		return fmt.Errorf("trim nodes in informer: %w", err)
	}
	return nil
}

var _ cache.TransformFunc = slimNode

// slimNode drops large fields of a node that neither the node authorizer nor admission
// reads.
func slimNode(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	node.ManagedFields = nil
	node.Status.Images, node.Status.VolumesInUse, node.Status.VolumesAttached = nil, nil, nil
	return node, nil
}
