package kube

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace/millrace/internal/storage"
)

// useInformers puts informers of ours into the factory that the server's own
// parts take theirs from. The first to ask decides, so it comes before them.
func useInformers(factory informers.SharedInformerFactory, pods func() *storage.Store) error {
	factory.InformerFor(&corev1.Pod{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		return newPodInformer(pods)
	})
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
