package kube

import (
	"reflect"
	"runtime"
	"sync"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// templates lets pods of one owner share what they have in common: they were
// made from one template and differ in names, node and token volume. Objects in
// informers are read-only, so sharing is safe.
type templates struct {
	mu struct {
		sync.Mutex
		// newest is the last pod seen of each owner, as long as it lives.
		newest map[types.UID]weak.Pointer[corev1.Pod]
	}
}

func newTemplates() *templates {
	t := &templates{}
	t.mu.newest = map[types.UID]weak.Pointer[corev1.Pod]{}
	return t
}

// share replaces parts of the pod by equal ones of another pod of its owner.
func (t *templates) share(pod *corev1.Pod) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return
	}
	if model := t.exchange(owner.UID, pod); model != nil {
		sharePod(pod, model)
	}
}

// exchange returns the newest pod of an owner and puts another in its place.
func (t *templates) exchange(owner types.UID, pod *corev1.Pod) *corev1.Pod {
	t.mu.Lock()
	defer t.mu.Unlock()
	model := t.mu.newest[owner].Value()
	pointer := weak.Make(pod)
	t.mu.newest[owner] = pointer
	runtime.AddCleanup(pod, func(owner types.UID) { t.forget(owner, pointer) }, owner)
	return model
}

func (t *templates) forget(owner types.UID, pointer weak.Pointer[corev1.Pod]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.newest[owner] == pointer {
		delete(t.mu.newest, owner)
	}
}

func sharePod(pod, model *corev1.Pod) {
	sharePart(&pod.Labels, &model.Labels)
	sharePart(&pod.Annotations, &model.Annotations)
	sharePart(&pod.OwnerReferences, &model.OwnerReferences)
	sharePart(&pod.Namespace, &model.Namespace)
	spec, from := &pod.Spec, &model.Spec
	sharePart(&spec.Volumes, &from.Volumes)
	sharePart(&spec.NodeSelector, &from.NodeSelector)
	sharePart(&spec.SecurityContext, &from.SecurityContext)
	sharePart(&spec.ImagePullSecrets, &from.ImagePullSecrets)
	sharePart(&spec.Affinity, &from.Affinity)
	sharePart(&spec.Tolerations, &from.Tolerations)
	sharePart(&spec.TopologySpreadConstraints, &from.TopologySpreadConstraints)
	shareContainers(&spec.InitContainers, &from.InitContainers)
	shareContainers(&spec.Containers, &from.Containers)
}

// shareContainers shares all containers, or what is equal in each: the mount of
// the token volume has a name of its own in every pod.
func shareContainers(own, model *[]corev1.Container) {
	if sharePart(own, model) || len(*own) != len(*model) {
		return
	}
	for i := range *own {
		c, from := &(*own)[i], &(*model)[i]
		sharePart(&c.Name, &from.Name)
		sharePart(&c.Image, &from.Image)
		sharePart(&c.Command, &from.Command)
		sharePart(&c.Args, &from.Args)
		sharePart(&c.Ports, &from.Ports)
		sharePart(&c.EnvFrom, &from.EnvFrom)
		sharePart(&c.Env, &from.Env)
		sharePart(&c.Resources, &from.Resources)
		sharePart(&c.VolumeMounts, &from.VolumeMounts)
		sharePart(&c.LivenessProbe, &from.LivenessProbe)
		sharePart(&c.ReadinessProbe, &from.ReadinessProbe)
		sharePart(&c.StartupProbe, &from.StartupProbe)
		sharePart(&c.Lifecycle, &from.Lifecycle)
		sharePart(&c.SecurityContext, &from.SecurityContext)
	}
}

// sharePart makes own the same memory as an equal model.
func sharePart[T any](own, model *T) bool {
	if !reflect.DeepEqual(own, model) {
		return false
	}
	*own = *model
	return true
}
