package programs

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/test/support/harness"
)

// plane is a namespace in which only controllers, scheduler and kubelets act.
const plane = "plane"

// controlPlane tests that Kubernetes' controllers and scheduler, which see the cluster
// through a replica, do their work. The test looks straight at the upstream.
func (c *cluster) controlPlane(t *testing.T) {
	ctx, client, began := t.Context(), clientset(t, c.upstream.Config()), time.Now()
	took := func(what string) { t.Logf("%s after %v", what, time.Since(began).Round(time.Millisecond)) }
	must(client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: plane}}, metav1.CreateOptions{}))(t)
	eventually(t, "a service account", func() error {
		_, err := client.CoreV1().ServiceAccounts(plane).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	makeWorkloads(t, client)
	eventually(t, "workloads are ready", func() error { return c.workloadsReady(t, client) })
	took("ready")
	eventually(t, "both lead", func() error {
		for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
			if lease, err := client.CoordinationV1().Leases("kube-system").Get(ctx, name, metav1.GetOptions{}); err != nil || lease.Spec.HolderIdentity == nil {
				return fmt.Errorf("lease %s: %v", name, err)
			}
		}
		return nil
	})

	check(t, client.AppsV1().Deployments(plane).Delete(ctx, "web", metav1.DeleteOptions{}))
	eventually(t, "what the deployment owned is collected", func() error {
		sets := must(client.AppsV1().ReplicaSets(plane).List(ctx, metav1.ListOptions{}))(t)
		pods := must(client.CoreV1().Pods(plane).List(ctx, metav1.ListOptions{LabelSelector: "app=web"}))(t)
		if n := len(sets.Items) + len(pods.Items); n != 0 {
			return fmt.Errorf("%d objects are left", n)
		}
		return nil
	})
	took("collected")
	check(t, client.CoreV1().Namespaces().Delete(ctx, plane, metav1.DeleteOptions{}))
	eventually(t, "the namespace is gone", func() error {
		if _, err := client.CoreV1().Namespaces().Get(ctx, plane, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%w: %v", harness.ErrNotYet, err)
		}
		return nil
	})
	took("gone")
}

// podTemplate is that of pods with a label and an image.
func podTemplate(app, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}},
	}
}

func selecting(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// replicas is the number of pods of a Deployment, a StatefulSet and a Job.
const replicas = 3

func makeWorkloads(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	ctx, n := t.Context(), int32(replicas)
	must(client.AppsV1().Deployments(plane).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: &n, Selector: selecting("web"), Template: podTemplate("web", "one")},
	}, metav1.CreateOptions{}))(t)
	must(client.AppsV1().StatefulSets(plane).Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "store"},
		Spec:       appsv1.StatefulSetSpec{Replicas: &n, ServiceName: "web", Selector: selecting("store"), Template: podTemplate("store", "one")},
	}, metav1.CreateOptions{}))(t)
	must(client.AppsV1().DaemonSets(plane).Create(ctx, &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec:       appsv1.DaemonSetSpec{Selector: selecting("agent"), Template: podTemplate("agent", "one")},
	}, metav1.CreateOptions{}))(t)
	sum := podTemplate("sum", doneImage)
	sum.Spec.RestartPolicy = corev1.RestartPolicyNever
	must(client.BatchV1().Jobs(plane).Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "sum"},
		Spec:       batchv1.JobSpec{Completions: &n, Parallelism: &n, Template: sum},
	}, metav1.CreateOptions{}))(t)
	must(client.CoreV1().Services(plane).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}))(t)
}

func (c *cluster) workloadsReady(t *testing.T, client kubernetes.Interface) error {
	t.Helper()
	ctx, byName := t.Context(), metav1.GetOptions{}
	web := must(client.AppsV1().Deployments(plane).Get(ctx, "web", byName))(t)
	store := must(client.AppsV1().StatefulSets(plane).Get(ctx, "store", byName))(t)
	agent := must(client.AppsV1().DaemonSets(plane).Get(ctx, "agent", byName))(t)
	sum := must(client.BatchV1().Jobs(plane).Get(ctx, "sum", byName))(t)
	addresses := 0
	for _, slice := range must(client.DiscoveryV1().EndpointSlices(plane).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=web"}))(t).Items {
		addresses += len(slice.Endpoints)
	}
	got := fmt.Sprintf("%d of the Deployment, %d of the StatefulSet, %d of the DaemonSet, %d of the Job, %d endpoints",
		web.Status.ReadyReplicas, store.Status.ReadyReplicas, agent.Status.NumberReady, sum.Status.Succeeded, addresses)
	want := fmt.Sprintf("%d of the Deployment, %d of the StatefulSet, %d of the DaemonSet, %d of the Job, %d endpoints",
		replicas, replicas, len(c.nodes()), replicas, replicas)
	if got != want {
		return fmt.Errorf("%w: %s", harness.ErrNotYet, got)
	}
	return nil
}
