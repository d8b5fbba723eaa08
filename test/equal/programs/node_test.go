package programs

import (
	"context"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	// leasePeriod is how often a node says that it is alive.
	leasePeriod = 10 * time.Second
	// leaseDuration is the lease's own idea of how long it is valid.
	leaseDuration = int32(40)
	// doneImage is the image of a container that has ended well as soon as it is started.
	doneImage = "done"
)

// run registers nodes, each with its side, keeps them alive, and lets their pods run, until
// the test ends. The client is that of the kubelets.
func (k *stubKubelet) run(t *testing.T, client kubernetes.Interface, sideOf map[string]string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	for name, side := range sideOf {
		k.register(t, client, name, side)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	}))
	pods := factory.Core().V1().Pods().Informer()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { k.sync(ctx, client, o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) { k.sync(ctx, client, o.(*corev1.Pod)) },
	})
	check(t, err)
	factory.StartWithContext(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(leasePeriod)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			for name := range sideOf {
				renew(ctx, client, name)
			}
		}
	})
	t.Cleanup(func() { stop(); running.Wait(); factory.Shutdown() })
}

// register makes a node that is ready.
func (k *stubKubelet) register(t *testing.T, client kubernetes.Interface, name, side string) {
	t.Helper()
	ctx := t.Context()
	labels := map[string]string{"side": side, corev1.LabelHostname: name}
	node := must(client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{}))(t)
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	now := metav1.Now()
	node.Status = corev1.NodeStatus{
		Capacity: room, Allocatable: room,
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now, LastTransitionTime: now}},
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: k.host}},
		NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: "v1.37.2", OperatingSystem: "linux", Architecture: "amd64"},
	}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(portOf(k.Server))
	must(client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}))(t)
	renew(ctx, client, name)
}

// renew renews or makes the lease of a node. Errors are met again at the next time.
func renew(ctx context.Context, client kubernetes.Interface, node string) {
	leases, now, duration := client.CoordinationV1().Leases(corev1.NamespaceNodeLease), metav1.NowMicro(), leaseDuration
	lease, err := leases.Get(ctx, node, metav1.GetOptions{})
	if err == nil {
		lease.Spec.RenewTime = &now
		_, _ = leases.Update(ctx, lease, metav1.UpdateOptions{})
	} else if apierrors.IsNotFound(err) {
		_, _ = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: node},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &node, RenewTime: &now, LeaseDurationSeconds: &duration},
		}, metav1.CreateOptions{})
	}
}

// sync does for a pod what its node does: it runs, or goes if it is being deleted. A
// conflict brings another event.
func (k *stubKubelet) sync(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) {
	pods := client.CoreV1().Pods(pod.Namespace)
	if pod.DeletionTimestamp != nil {
		now := metav1.NewDeleteOptions(0)
		now.Preconditions = &metav1.Preconditions{UID: &pod.UID}
		_ = pods.Delete(ctx, pod.Name, *now)
		return
	}
	if pod.Status.Phase != corev1.PodPending {
		return
	}
	started := pod.DeepCopy()
	k.start(started)
	_, _ = pods.UpdateStatus(ctx, started, metav1.UpdateOptions{})
}

// start sets the status of a pod whose containers have started.
func (k *stubKubelet) start(pod *corev1.Pod) {
	now, status := metav1.Now(), &pod.Status
	done := pod.Spec.Containers[0].Image == doneImage
	status.Phase, status.StartTime = corev1.PodRunning, &now
	status.HostIP, status.HostIPs = k.host, []corev1.HostIP{{IP: k.host}}
	status.PodIP, status.PodIPs = k.host, []corev1.PodIP{{IP: k.host}}
	ready := corev1.ConditionTrue
	state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	if done {
		status.Phase, ready = corev1.PodSucceeded, corev1.ConditionFalse
		state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}}
	}
	kept := status.Conditions[:0]
	for _, c := range status.Conditions {
		if c.Type == corev1.PodScheduled {
			kept = append(kept, c)
		}
	}
	status.Conditions = kept
	for _, c := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		is := ready
		if c == corev1.PodInitialized {
			is = corev1.ConditionTrue
		}
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: c, Status: is, LastTransitionTime: now})
	}
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: "stub://" + c.Image, Ready: !done, Started: new(!done), State: state, ContainerID: "stub://" + c.Name,
		})
	}
}
