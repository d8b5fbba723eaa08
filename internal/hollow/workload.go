package hollow

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// makeShared makes what the pods of a run use: a service account, a secret and a config map.
func (f *fleet) makeShared(ctx context.Context) error {
	meta := metav1.ObjectMeta{Name: f.cfg.Name, Namespace: f.cfg.Namespace, Labels: map[string]string{Label: f.cfg.Name}}
	core := f.admin.CoreV1()
	_, err := core.ServiceAccounts(f.cfg.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) {
		_, err = core.Secrets(f.cfg.Namespace).Create(ctx, &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"key": "value"}}, metav1.CreateOptions{})
	}
	if err == nil || apierrors.IsAlreadyExists(err) {
		_, err = core.ConfigMaps(f.cfg.Namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"key": "value"}}, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make what pods use in namespace %s: %w: choose a --namespace that exists, or leave --pods out", f.cfg.Namespace, err)
	}
	return nil
}

// makePods makes the pods of a node. What exists is left as it is.
func (n *node) makePods(ctx context.Context) {
	c := n.fleet.writes.createPod
	for i := range n.fleet.cfg.Pods {
		object := n.newPod(i)
		n.insist(func(context.Context) bool {
			began := time.Now()
			_, err := n.fleet.admin.CoreV1().Pods(object.Namespace).Create(ctx, object, metav1.CreateOptions{})
			switch {
			case err == nil || apierrors.IsAlreadyExists(err):
				c.done(time.Since(began))
				return true
			case ctx.Err() != nil:
				return true
			}
			c.failed(err.Error())
			return !apierrors.IsTooManyRequests(err) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) && !apierrors.IsInternalError(err)
		})
	}
}

// newPod is pod i of a node. Its labels are those of an application of twenty pods.
func (n *node) newPod(i int) *corev1.Pod {
	cfg := &n.fleet.cfg
	number := n.index*cfg.Pods + i
	no, optional := false, false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", n.name, i), Namespace: cfg.Namespace,
			Labels: map[string]string{Label: cfg.Name, "app": fmt.Sprintf("app-%d", number/20)},
		},
		Spec: corev1.PodSpec{
			NodeName: n.name, ServiceAccountName: cfg.Name, AutomountServiceAccountToken: &no,
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example.com/app-01:1.0.0",
				Env: []corev1.EnvVar{{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}},
				VolumeMounts: []corev1.VolumeMount{
					{Name: "secret", MountPath: "/etc/secret", ReadOnly: true}, {Name: "config", MountPath: "/etc/config", ReadOnly: true},
				},
			}},
			Volumes: []corev1.Volume{
				{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: cfg.Name, Optional: &optional}}},
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: cfg.Name}}}},
			},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
}
