package e2e

import (
	"context"
	"fmt"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/test/support/harness"
)

// TestNodesReadWhatTheirPodsNeed checks what a node may read, from the creation of its
// pod to the deletion, over a restart.
func TestNodesReadWhatTheirPodsNeed(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.ShortTempDir(t))
	admin := clientset(t, s)
	_, err := admin.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	check(t, err)
	for _, name := range []string{"needed", "other"} {
		_, err := admin.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		check(t, err)
	}
	wantSecret(t, s, "one", "needed", false)
	pod, err := admin.CoreV1().Pods("default").Create(t.Context(), podOn("one", "needed"), metav1.CreateOptions{})
	check(t, err)
	wantSecret(t, s, "one", "needed", true)
	wantSecret(t, s, "one", "other", false)
	wantSecret(t, s, "two", "needed", false)
	wantToken(t, s, "one", pod, true)
	wantToken(t, s, "two", pod, false)

	check(t, s.Terminate())
	s = s.Restart()
	wantSecret(t, s, "one", "needed", true)
	wantSecret(t, s, "two", "needed", false)
	check(t, clientset(t, s).CoreV1().Pods("default").Delete(t.Context(), pod.Name, *metav1.NewDeleteOptions(0)))
	wantSecret(t, s, "one", "needed", false)
	wantToken(t, s, "one", pod, false)
}

func podOn(node, secret string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod"},
		Spec: corev1.PodSpec{
			NodeName:   node,
			Containers: []corev1.Container{{Name: "main", Image: "pause"}},
			Volumes: []corev1.Volume{{Name: "secret", VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: secret},
			}}},
		},
	}
}

// asNode returns a client that impersonates a node.
func asNode(t *testing.T, s *harness.Server, node string) *kubernetes.Clientset {
	t.Helper()
	config := rest.CopyConfig(s.Config())
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + node, Groups: []string{"system:nodes"}}
	client, err := kubernetes.NewForConfig(config)
	check(t, err)
	return client
}

// wantSecret waits until a node may read a secret, or may not.
func wantSecret(t *testing.T, s *harness.Server, node, secret string, allowed bool) {
	t.Helper()
	client := asNode(t, s, node)
	eventually(t, func(ctx context.Context) error {
		_, err := client.CoreV1().Secrets("default").Get(ctx, secret, metav1.GetOptions{})
		return wantAllowed(err, allowed)
	})
}

// wantToken waits until a node may request a service account token for a pod, as a
// kubelet does, or may not.
func wantToken(t *testing.T, s *harness.Server, node string, pod *corev1.Pod, allowed bool) {
	t.Helper()
	client := asNode(t, s, node)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}
	eventually(t, func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", request, metav1.CreateOptions{})
		return wantAllowed(err, allowed)
	})
}

// wantAllowed returns an error unless a request was allowed, or forbidden.
func wantAllowed(err error, allowed bool) error {
	if allowed {
		return err
	}
	if !apierrors.IsForbidden(err) {
		return fmt.Errorf("got %v, want a 403", err)
	}
	return nil
}
