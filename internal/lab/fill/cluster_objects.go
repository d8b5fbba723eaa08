package fill

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// leaseNamespace is where the leases of nodes are. Each server makes it.
const leaseNamespace = "kube-node-lease"

// Lease returns the lease of node i.
func (g *Generator) Lease(i int) *coordinationv1.Lease {
	node := newStream(g.shape.Seed, drawNode, i)
	nodeUID := node.uid()
	draw := newStream(g.shape.Seed, drawLease, i)
	name := g.nodeName(i)
	seconds := int32(40)
	uid := draw.uid()
	created := draw.instant(-30, 30)
	renewed := metav1.NewMicroTime(draw.instant(31, 1).Time)
	return &coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: leaseNamespace, UID: uid, CreationTimestamp: created, Labels: map[string]string{LabelSeed: g.seedLabel()},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: nodeUID}},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &renewed},
	}
}

// eventReasons has the reason and the message of each event of a pod's start.
var eventReasons = [][2]string{
	{"Scheduled", "Successfully assigned the pod to its node"},
	{"Pulled", "Container image is already present on the machine"},
	{"Created", "Container created"},
	{"Started", "Container started"},
	{"Unhealthy", "Readiness probe failed: connection refused"},
}

// Event returns event i, which is about one of the pods.
func (g *Generator) Event(i int) *corev1.Event {
	pod := i % max(1, g.shape.Pods)
	w := g.workload(pod / SlicePods)
	draw := newStream(g.shape.Seed, drawEvent, i)
	about := newStream(g.shape.Seed, drawPod, pod)
	reason := eventReasons[i/max(1, g.shape.Pods)%len(eventReasons)]
	uid := draw.uid()
	created := draw.instant(31, 1)
	name := podName(w, pod)
	host := ""
	if !g.shape.Unbound && g.shape.Nodes > 0 {
		host = g.nodeName(pod % g.shape.Nodes)
	}
	return &corev1.Event{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s.%s", name, draw.hex(16)), Namespace: w.namespace, UID: uid, CreationTimestamp: created, Labels: map[string]string{LabelSeed: g.seedLabel()},
		},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: w.namespace, Name: name, UID: about.uid()},
		Reason:         reason[0], Message: reason[1], Type: corev1.EventTypeNormal, Count: 1,
		Source:         corev1.EventSource{Component: "kubelet", Host: host},
		FirstTimestamp: created, LastTimestamp: later(created, time.Second),
		ReportingController: "kubelet", ReportingInstance: host,
	}
}
