package hollow

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// objectKey identifies a secret or a config map that pods use.
type objectKey struct {
	secret          bool // false: a config map
	namespace, name string
}

// objectWatch is the watch of one object. A kubelet has it while a pod uses the object.
type objectWatch struct {
	reflector *reflector
	pods      int // number of pods that use the object
}

// acquireLocked starts the watches of a pod's objects that no other pod needs yet.
func (n *node) acquireLocked(p *pod) {
	for _, key := range p.objects {
		plan := n.configs
		if key.secret {
			plan = n.secrets
		}
		if plan == nil {
			continue
		}
		watch := n.mu.objects[key]
		if watch == nil {
			watch = &objectWatch{reflector: newReflector(n.kubelet, plan, key.namespace, key.name)}
			n.mu.objects[key] = watch
			watch.reflector.begin()
		}
		watch.pods++
	}
}

// releaseLocked ends the watches that only this pod needed. Further calls do nothing.
func (n *node) releaseLocked(p *pod) {
	for _, key := range p.objects {
		watch := n.mu.objects[key]
		if watch == nil {
			continue
		}
		if watch.pods--; watch.pods == 0 {
			delete(n.mu.objects, key)
			watch.reflector.stop()
		}
	}
	p.objects = nil
}

// objectsOf returns the secrets and config maps that a pod names, each once.
func objectsOf(pod *corev1.Pod) []objectKey {
	var keys []objectKey
	add := func(secret bool, name string) {
		key := objectKey{secret: secret, namespace: pod.Namespace, name: name}
		if name != "" && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for _, s := range pod.Spec.ImagePullSecrets {
		add(true, s.Name)
	}
	for i := range pod.Spec.Volumes {
		addVolume(&pod.Spec.Volumes[i].VolumeSource, add)
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			addContainer(&containers[i], add)
		}
	}
	return keys
}

// addVolume calls add with the secrets and config maps that a volume names.
func addVolume(v *corev1.VolumeSource, add func(secret bool, name string)) {
	switch {
	case v.Secret != nil:
		add(true, v.Secret.SecretName)
	case v.ConfigMap != nil:
		add(false, v.ConfigMap.Name)
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			if s := v.Projected.Sources[i].Secret; s != nil {
				add(true, s.Name)
			}
			if c := v.Projected.Sources[i].ConfigMap; c != nil {
				add(false, c.Name)
			}
		}
	}
}

// addContainer calls add with the secrets and config maps that a container's variables name.
func addContainer(c *corev1.Container, add func(secret bool, name string)) {
	for _, from := range c.EnvFrom {
		if from.SecretRef != nil {
			add(true, from.SecretRef.Name)
		}
		if from.ConfigMapRef != nil {
			add(false, from.ConfigMapRef.Name)
		}
	}
	for _, env := range c.Env {
		if env.ValueFrom == nil {
			continue
		}
		if ref := env.ValueFrom.SecretKeyRef; ref != nil {
			add(true, ref.Name)
		}
		if ref := env.ValueFrom.ConfigMapKeyRef; ref != nil {
			add(false, ref.Name)
		}
	}
}
