package kube

import (
	"reflect"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func replica(name, owner, image string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "ns", Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{{UID: "uid-" + "1", Controller: ptr.To(true), Name: owner}},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-of-" + name,
			Volumes:  []corev1.Volume{{Name: "kube-api-access-" + name}},
			Containers: []corev1.Container{{
				Name: "main", Image: image,
				Env:          []corev1.EnvVar{{Name: "A", Value: "b"}},
				VolumeMounts: []corev1.VolumeMount{{Name: "kube-api-access-" + name, MountPath: "/token"}},
			}},
		},
	}
}

func TestPodsOfAnOwnerShareMemoryButKeepTheirContent(t *testing.T) {
	shared := newTemplates()
	first := replica("a", "rs", "web:1")
	shared.share(first)
	for _, image := range []string{"web:1", "web:2"} {
		second := replica("b", "rs", image)
		want := second.DeepCopy()
		shared.share(second)
		if !reflect.DeepEqual(second, want) {
			t.Fatalf("sharing changed the pod:\ngot  %v\nwant %v", second, want)
		}
		if unsafe.SliceData(second.Spec.Containers[0].Env) != unsafe.SliceData(first.Spec.Containers[0].Env) {
			t.Error("equal environments are held twice")
		}
		if unsafe.SliceData(second.Spec.Volumes) == unsafe.SliceData(first.Spec.Volumes) {
			t.Error("different volumes are shared")
		}
	}
}

func TestPodsWithoutControllerAreLeftAlone(t *testing.T) {
	shared := newTemplates()
	pod := replica("a", "rs", "web:1")
	pod.OwnerReferences = nil
	want := pod.DeepCopy()
	shared.share(pod)
	if !reflect.DeepEqual(pod, want) || len(shared.mu.newest) != 0 {
		t.Fatalf("a pod without controller was changed or remembered")
	}
}

func TestSlimPodKeepsWhatAuthorizersRead(t *testing.T) {
	pod := replica("a", "rs", "web:1")
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	pod.Status = corev1.PodStatus{
		Phase:                 corev1.PodRunning,
		Conditions:            []corev1.PodCondition{{Type: corev1.PodReady}},
		ResourceClaimStatuses: []corev1.PodResourceClaimStatus{{Name: "gpu"}},
	}
	slimPod(pod)
	if pod.ManagedFields != nil || pod.Status.Conditions != nil {
		t.Error("managed fields or conditions are kept")
	}
	if pod.Status.Phase != corev1.PodRunning || len(pod.Status.ResourceClaimStatuses) != 1 {
		t.Error("phase or resource claims are lost")
	}
}
