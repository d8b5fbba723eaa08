package hollow

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// MakeShared creates what the pods of a run use: a service account, a secret and a config map,
// each with the run's name. It leaves existing ones as they are.
func MakeShared(ctx context.Context, admin kubernetes.Interface, cfg *Config) error {
	meta := metav1.ObjectMeta{Name: cfg.Name, Namespace: cfg.Namespace, Labels: map[string]string{Label: cfg.Name}}
	core := admin.CoreV1()
	_, err := core.ServiceAccounts(cfg.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) {
		_, err = core.Secrets(cfg.Namespace).Create(ctx,
			&corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"key": "value"}}, metav1.CreateOptions{})
	}
	if err == nil || apierrors.IsAlreadyExists(err) {
		_, err = core.ConfigMaps(cfg.Namespace).Create(ctx,
			&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"key": "value"}}, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make what pods use in namespace %s: %w: choose a --namespace that exists", cfg.Namespace, err)
	}
	return nil
}

// makePods creates the pods of a node. It leaves existing ones as they are, and gives up a pod
// that the server refuses.
func (n *node) makePods(ctx context.Context) {
	c := n.fleet.writes.createPod
	for i := range n.fleet.cfg.Pods {
		object := n.newPod(i)
		n.insist(func(context.Context) bool {
			began := time.Now()
			_, err := n.fleet.admin.CoreV1().Pods(object.Namespace).Create(ctx, object, metav1.CreateOptions{})
			switch {
			case err == nil || apierrors.IsAlreadyExists(err):
				c.recordSuccess(time.Since(began))
				return true
			case ctx.Err() != nil:
				return true
			}
			c.recordFailure(err.Error())
			return !apierrors.IsTooManyRequests(err) && !apierrors.IsTimeout(err) &&
				!apierrors.IsServerTimeout(err) && !apierrors.IsInternalError(err)
		})
	}
}

// newPod returns pod i of a node. Twenty pods share the label of an application.
func (n *node) newPod(i int) *corev1.Pod {
	cfg := &n.fleet.cfg
	number := n.index*cfg.Pods + i
	spec := PodSpec(cfg.Name)
	spec.NodeName = n.name
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", n.name, i), Namespace: cfg.Namespace,
			Labels: map[string]string{Label: cfg.Name, "app": fmt.Sprintf("app-%d", number/20)},
		},
		Spec: spec,
	}
}

// PodSpec returns the spec of a run's pods, without a node. The pods use what MakeShared creates.
// They tolerate every taint: without a controller manager, new nodes keep theirs.
func PodSpec(name string) corev1.PodSpec {
	var no, optional bool
	return corev1.PodSpec{
		ServiceAccountName: name, AutomountServiceAccountToken: &no,
		Containers: []corev1.Container{{
			Name: "main", Image: "registry.example.com/app-01:1.0.0",
			Env: []corev1.EnvVar{{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "secret", MountPath: "/etc/secret", ReadOnly: true}, {Name: "config", MountPath: "/etc/config", ReadOnly: true},
			},
		}},
		Volumes: []corev1.Volume{
			{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, Optional: &optional}}},
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}},
		},
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	}
}
