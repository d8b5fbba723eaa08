package fill

import (
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// servicePort is the port of every service.
const servicePort = 8080

// workload holds the name and UID of the ReplicaSet that owns one slice of pods. The
// ReplicaSet is written only if Shape.Workloads is set.
type workload struct {
	index     int
	app       int
	namespace string
	hash      string
	name      string
	uid       types.UID
	podStart  uint64
}

// workload returns the ReplicaSet with the given index. ReplicaSets are spread
// evenly over namespaces and applications. After each period the application
// shifts by one, so that every application appears in every namespace.
func (g *Generator) workload(index int) workload {
	apps := len(g.words.apps)
	namespaces := g.shape.Namespaces
	period := apps / gcd(apps, namespaces) * namespaces
	draw := newStream(g.shape.Seed, drawWorkload, index)
	w := workload{
		index:     index,
		app:       (index + index/period) % apps,
		namespace: g.namespaceName(index % namespaces),
		hash:      safeName(g.hashStart, uint64(index), 10),
		uid:       draw.uid(),
		podStart:  draw.next(),
	}
	w.name = g.words.apps[w.app] + "-" + w.hash
	return w
}

// workloads returns the number of pod slices, each of which has a Deployment, a ReplicaSet, a
// Service and an EndpointSlice. It is 0 without Workloads.
func (s Shape) workloads() int {
	if !s.Workloads {
		return 0
	}
	return (s.Pods + SlicePods - 1) / SlicePods
}

// workloadMeta returns the metadata of one object of a workload. purpose decides its UID and
// its creation time. The caller may draw on from the stream.
func (g *Generator) workloadMeta(w workload, purpose uint64) (metav1.ObjectMeta, stream) {
	draw := newStream(g.shape.Seed, purpose, w.index)
	return metav1.ObjectMeta{
		Name: w.name, Namespace: w.namespace, UID: draw.uid(), Generation: 1, CreationTimestamp: draw.instant(-1, 20),
		Labels: map[string]string{
			LabelSeed: g.seedLabel(), LabelSlice: strconv.Itoa(w.index),
			"app": g.words.apps[w.app], "app.kubernetes.io/managed-by": "Helm",
		},
	}, draw
}

// selector returns the labels that only the pods of this workload have.
func (w workload) selector() map[string]string {
	return map[string]string{LabelSlice: strconv.Itoa(w.index)}
}

// deploymentUID returns the UID of the Deployment that owns a workload's ReplicaSet.
func (g *Generator) deploymentUID(w workload) types.UID {
	draw := newStream(g.shape.Seed, drawDeployment, w.index)
	return draw.uid()
}

// podTemplate returns the template of a workload's pods, and their number.
func (g *Generator) podTemplate(w workload) (template corev1.PodTemplateSpec, replicas int32) {
	slot := &g.pods[w.app]
	slot.once.Do(func() { slot.podTemplate = g.fitPod(w.app) })
	labels := slot.labels(w.index*SlicePods, w)
	delete(labels, LabelGroup) // differs between the pods of a workload
	delete(labels, LabelShare) // likewise
	first := w.index * SlicePods
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: slot.annotations}, Spec: slot.spec},
		int32(max(0, min(SlicePods, g.shape.Pods-first)))
}

// Deployment returns the Deployment of workload i.
func (g *Generator) Deployment(i int) *appsv1.Deployment {
	w := g.workload(i)
	meta, _ := g.workloadMeta(w, drawDeployment)
	template, replicas := g.podTemplate(w)
	condition := func(kind appsv1.DeploymentConditionType, reason string) appsv1.DeploymentCondition {
		at := later(meta.CreationTimestamp, time.Minute)
		return appsv1.DeploymentCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, LastUpdateTime: at, LastTransitionTime: at}
	}
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: meta,
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: w.selector()}, Template: template},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 1, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas,
			Conditions: []appsv1.DeploymentCondition{
				condition(appsv1.DeploymentAvailable, "MinimumReplicasAvailable"),
				condition(appsv1.DeploymentProgressing, "NewReplicaSetAvailable"),
			},
		},
	}
}

// ReplicaSet returns the ReplicaSet of workload i, which owns its pods.
func (g *Generator) ReplicaSet(i int) *appsv1.ReplicaSet {
	w := g.workload(i)
	meta, _ := g.workloadMeta(w, drawDeployment)
	yes := true
	if !g.shape.Ownerless {
		meta.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "Deployment", Name: w.name, UID: g.deploymentUID(w), Controller: &yes, BlockOwnerDeletion: &yes,
		}}
	}
	meta.UID = w.uid
	template, replicas := g.podTemplate(w)
	return &appsv1.ReplicaSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"}, ObjectMeta: meta,
		Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: w.selector()}, Template: template},
		Status: appsv1.ReplicaSetStatus{ObservedGeneration: 1, Replicas: replicas, FullyLabeledReplicas: replicas,
			ReadyReplicas: replicas, AvailableReplicas: replicas},
	}
}

// Service returns the Service of workload i.
func (g *Generator) Service(i int) *corev1.Service {
	w := g.workload(i)
	meta, _ := g.workloadMeta(w, drawService)
	single := corev1.IPFamilyPolicySingleStack
	ip := serviceIP(i)
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: meta,
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, IPFamilyPolicy: &single,
			Selector: w.selector(), SessionAffinity: corev1.ServiceAffinityNone,
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(servicePort)}},
		},
	}
}

// serviceIP returns an address of the range 10.96.0.0/12. It skips the first 1,024 addresses,
// which clusters give to their own services.
func serviceIP(i int) string {
	n := (i + 1024) % (1 << 20)
	return fmt.Sprintf("10.%d.%d.%d", 96+n>>16, n>>8&255, n&255)
}

// EndpointSlice returns the EndpointSlice of workload i, with the addresses of its pods.
func (g *Generator) EndpointSlice(i int) *discoveryv1.EndpointSlice {
	w := g.workload(i)
	meta, draw := g.workloadMeta(w, drawEndpointSlice)
	yes := true
	service := newStream(g.shape.Seed, drawService, w.index)
	meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: w.name, UID: service.uid(),
		Controller: &yes, BlockOwnerDeletion: &yes}}
	if g.shape.Ownerless {
		meta.OwnerReferences = nil
	}
	meta.Labels[discoveryv1.LabelServiceName] = w.name
	meta.Labels[discoveryv1.LabelManagedBy] = "fill.millrace.io"
	meta.GenerateName = w.name + "-"
	meta.Name += "-" + safeName(draw.next(), 0, 5)
	name, port, protocol := "http", int32(servicePort), corev1.ProtocolTCP
	slice := &discoveryv1.EndpointSlice{
		TypeMeta:   metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}
	if g.shape.Unbound || g.shape.Nodes == 0 {
		return slice
	}
	for p := i * SlicePods; p < min((i+1)*SlicePods, g.shape.Pods); p++ {
		node := g.nodeName(p % g.shape.Nodes)
		zone := "zone-" + string("abc"[p%g.shape.Nodes%3])
		pod := newStream(g.shape.Seed, drawPod, p)
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{podIP(p%g.shape.Nodes, p/g.shape.Nodes)}, NodeName: &node, Zone: &zone,
			Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes, Terminating: new(bool)},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: w.namespace, Name: podName(w, p), UID: pod.uid()},
		})
	}
	return slice
}

// podName returns the name of pod i, which must belong to the workload.
func podName(w workload, i int) string {
	return w.name + "-" + safeName(w.podStart, uint64(i%SlicePods), 5)
}
