package provision

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/lab/hollow"
)

// writers bounds the creations that are in flight.
const writers = 32

// workload creates the pods of one path, or the Deployments that stand for them, and removes
// all that a run has made.
type workload struct {
	plan   *plan
	rest   *rest.Config
	client kubernetes.Interface
	clock  *clock // gets the times of answers to creations of pods; may be nil
}

// newWorkload returns a workload at a server.
func newWorkload(config *rest.Config, p *plan) (*workload, error) {
	client, err := hollow.NewClient(config)
	if err != nil {
		return nil, err
	}
	return &workload{plan: p, rest: config, client: client}, nil
}

// appLabel is the label by which a Deployment selects its pods. Its value is the object's name.
const appLabel = "app"

// firstName returns the name of the object with which the run name starts. Its pod shows that all
// programs work, and is not measured.
func firstName(name string) string { return name + "-first" }

// meta returns the metadata of an object.
func (w *workload) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: w.plan.Namespace, Labels: map[string]string{hollow.Label: w.plan.Name, appLabel: name}}
}

// spec returns the spec of all pods, which keeps them on the nodes of the run.
func (w *workload) spec() corev1.PodSpec {
	spec := hollow.PodSpec(w.plan.Name)
	spec.NodeSelector = map[string]string{hollow.Label: w.plan.Name}
	return spec
}

// objectName returns the name of object i.
func (w *workload) objectName(i int) string { return fmt.Sprintf("%s-%05d", w.plan.Name, i) }

// pod returns a pod.
func (w *workload) pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: w.meta(name), Spec: w.spec()}
}

// deployment returns a Deployment of a number of pods.
func (w *workload) deployment(name string, pods int) *appsv1.Deployment {
	meta, replicas := w.meta(name), int32(pods)
	return &appsv1.Deployment{
		ObjectMeta: meta,
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: meta.Name}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels}, Spec: w.spec()},
		},
	}
}

// objects returns the number of objects to make, and the number of pods of each. The last object may
// have fewer pods.
func (w *workload) objects() (objects, pods int) {
	if w.plan.PodsOf == podsOfPods {
		return w.plan.Pods, 1
	}
	pods = w.plan.PodsPerDeployment
	return (w.plan.Pods + pods - 1) / pods, pods
}

// podsOf returns the number of pods of object i.
func (w *workload) podsOf(i int) int {
	_, pods := w.objects()
	return min(pods, w.plan.Pods-i*pods)
}

// createOne creates an object with a number of pods.
func (w *workload) createOne(ctx context.Context, name string, pods int, opts metav1.CreateOptions) error {
	if w.plan.PodsOf == podsOfPods {
		pod, err := w.client.CoreV1().Pods(w.plan.Namespace).Create(ctx, w.pod(name), opts)
		if err == nil && w.clock != nil {
			w.clock.setFromAnswer(pod.ResourceVersion, time.Now())
		}
		return explainCreation(err)
	}
	_, err := w.client.AppsV1().Deployments(w.plan.Namespace).Create(ctx, w.deployment(name, pods), opts)
	return explainCreation(err)
}

// explainCreation returns the error of a creation with a text that names it.
func explainCreation(err error) error {
	if err != nil {
		return fmt.Errorf("create a pod or a Deployment: %w", err)
	}
	return nil
}

// createFirst creates the object with which each run starts.
func (w *workload) createFirst(ctx context.Context) error {
	return w.createOne(ctx, firstName(w.plan.Name), 1, metav1.CreateOptions{})
}

// prepare creates the objects that all pods use. It also tries to create the first object, as a dry run:
// missing rights show before nodes are made.
func (w *workload) prepare(ctx context.Context) error {
	cfg := &hollow.Config{Name: w.plan.Name, Namespace: w.plan.Namespace}
	if err := hollow.MakeShared(ctx, w.client, cfg); err != nil {
		return err
	}
	return w.createOne(ctx, firstName(w.plan.Name), 1, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// create creates all objects, at the plan's rate of pods.
func (w *workload) create(ctx context.Context) error {
	objects, pods := w.objects()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	begin := func(i int) error {
		group.Go(func() error { return w.createOne(ctx, w.objectName(i), w.podsOf(i), metav1.CreateOptions{}) })
		return nil
	}
	if w.plan.Rate > 0 {
		if err := testbed.AtRate(ctx, objects, w.plan.Rate/float64(pods), begin); err != nil {
			return testbed.Cause(ctx, group.Wait())
		}
		return group.Wait()
	}
	for i := range objects {
		_ = begin(i)
	}
	return group.Wait()
}

// clean removes all objects that runs of the plan's name have made.
func (w *workload) clean(ctx context.Context) error {
	return hollow.Remove(ctx, hollow.Config{Name: w.plan.Name, REST: w.rest, Delete: true})
}
