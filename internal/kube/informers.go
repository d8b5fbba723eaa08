package kube

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// The server's own informers hold every pod and node as decoded objects, for the
// node authorizer and some admission plugins. Those read a pod's spec and the
// resource claims in its status, and of a node neither images nor volumes.

// slim makes the loopback informers keep only what their users read, and once
// what many pods have in common.
func slim(factory informers.SharedInformerFactory) error {
	core := factory.Core().V1()
	pods := newTemplates()
	err := core.Pods().Informer().SetTransform(func(obj any) (any, error) {
		if pod, ok := obj.(*corev1.Pod); ok {
			slimPod(pod)
			pods.share(pod)
		}
		return obj, nil
	})
	if err != nil {
		return fmt.Errorf("trim pods in informer: %w", err)
	}
	if err := core.Nodes().Informer().SetTransform(slimNode); err != nil {
		return fmt.Errorf("trim nodes in informer: %w", err)
	}
	return nil
}

func slimPod(pod *corev1.Pod) {
	pod.ManagedFields = nil
	pod.Status = corev1.PodStatus{
		Phase:                       pod.Status.Phase,
		ResourceClaimStatuses:       pod.Status.ResourceClaimStatuses,
		ExtendedResourceClaimStatus: pod.Status.ExtendedResourceClaimStatus,
	}
}

var _ cache.TransformFunc = slimNode

func slimNode(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	node.ManagedFields = nil
	node.Status.Images, node.Status.VolumesInUse, node.Status.VolumesAttached = nil, nil, nil
	return node, nil
}
