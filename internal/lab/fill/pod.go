package fill

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pod returns pod i. The pods of one slice are the replicas of one ReplicaSet.
func (g *Generator) Pod(i int) *corev1.Pod {
	w := g.workload(i / SlicePods)
	slot := &g.pods[w.app]
	slot.once.Do(func() { slot.podTemplate = g.fitPod(w.app) })
	return slot.pod(i, w)
}

// podTemplate holds the parts that all pods of one application share. Pods point
// into it, so it must not change once it is built.
type podTemplate struct {
	g           *Generator
	app         string
	tier        string
	annotations map[string]string
	spec        corev1.PodSpec
	statuses    []corev1.ContainerStatus
	level       int
	// createdFields is the controller's field set, with a hole for the owner's
	// UID. statusFields is the kubelet's, with a hole for the pod's IP. The zero values
	// stand for pods that are too small for managed fields.
	createdFields, statusFields textTemplate
}

// buildPod returns the template for an application and a shape.
func (g *Generator) buildPod(app int, shape podShape) *podTemplate {
	t := &podTemplate{
		g:    g,
		app:  g.words.apps[app],
		tier: g.words.tiers[app%len(g.words.tiers)],

		level: shape.level,
	}
	t.annotations = g.podAnnotations(app, shape)
	t.spec = g.podSpec(app, shape)
	t.statuses = g.containerStatuses(app, shape, t.spec.Containers)
	if shape.level >= levelManaged {
		t.trackFields()
	}
	return t
}

// trackFields computes the managed fields of the template's pods from a sample.
func (t *podTemplate) trackFields() {
	sample, w := t.sample()
	created, err := fieldSet(map[string]any{"metadata": sample.ObjectMeta, "spec": sample.Spec})
	if err == nil {
		t.createdFields = newTextTemplate(created, string(w.uid))
		var reported []byte
		reported, err = fieldSet(map[string]any{"status": sample.Status})
		t.statusFields = newTextTemplate(reported, sample.Status.PodIP)
	}
	if err != nil {
		// The input is made of plain API types, which always marshal.
		panic(fmt.Sprintf("track fields of a generated pod: %v", err))
	}
}

// sample returns a pod whose variable parts have typical lengths, and its workload.
func (t *podTemplate) sample() (*corev1.Pod, workload) {
	g := t.g
	index := g.shape.Pods / 2
	w := g.workload(index / SlicePods)
	// The workload may belong to another application. The name must have the length
	// that the template's application gives it.
	w.name = t.app + "-" + w.hash
	return t.pod(index, w), w
}

// size returns the length of the sample pod as compact JSON, in bytes.
func (t *podTemplate) size() int {
	pod, _ := t.sample()
	text, err := json.Marshal(pod)
	if err != nil {
		panic(fmt.Sprintf("measure a generated pod: %v", err)) // as in trackFields
	}
	return len(text)
}

// pod returns pod i of a workload. The pod shares memory with the template.
func (t *podTemplate) pod(i int, w workload) *corev1.Pod {
	g := t.g
	draw := newStream(g.shape.Seed, drawPod, i)
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name:              podName(w, i),
			Namespace:         w.namespace,
			UID:               draw.uid(),
			Generation:        1,
			CreationTimestamp: draw.instant(30, 30),
			Labels:            t.labels(i, w),
			Annotations:       t.annotations,
		},
		Spec: t.spec,
	}
	if t.level > levelTiny {
		pod.GenerateName = w.name + "-"
	}
	if !g.shape.Ownerless {
		pod.OwnerReferences = []metav1.OwnerReference{t.owner(w)}
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable}
	if !g.shape.Unbound && g.shape.Nodes > 0 {
		node := i % g.shape.Nodes
		pod.Spec.NodeName = g.nodeName(node)
		t.setRunning(pod, node, i/g.shape.Nodes, &draw)
	}
	if t.createdFields.head != nil {
		pod.ManagedFields = t.managedFields(pod, w)
	}
	return pod
}

func (t *podTemplate) owner(w workload) metav1.OwnerReference {
	yes := true
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: w.name, UID: w.uid, Controller: &yes}
	if t.level > levelTiny {
		owner.BlockOwnerDeletion = &yes
	}
	return owner
}

// labels returns the labels of pod i of a workload.
func (t *podTemplate) labels(i int, w workload) map[string]string {
	labels := map[string]string{
		"app":               t.app,
		"pod-template-hash": w.hash,
		"tier":              t.tier,
		LabelSeed:           t.g.seedLabel(),
		LabelSlice:          strconv.Itoa(w.index),
		LabelGroup:          strconv.Itoa(i / GroupPods),
		LabelShare:          strconv.Itoa(i % Shares),
	}
	if t.level > levelTiny {
		labels["app.kubernetes.io/name"] = t.app
		labels["app.kubernetes.io/instance"] = t.app
		labels["app.kubernetes.io/managed-by"] = "Helm"
	}
	return labels
}

// setRunning sets the status of a pod that runs on a node. slot is the pod's number
// on that node.
func (t *podTemplate) setRunning(pod *corev1.Pod, node, slot int, draw *stream) {
	created := pod.CreationTimestamp
	ready := later(created, time.Duration(4+draw.intBelow(20))*time.Second)
	ip := podIP(node, slot)
	pod.Status = corev1.PodStatus{
		ObservedGeneration: 1,
		Phase:              corev1.PodRunning,
		QOSClass:           corev1.PodQOSBurstable,
		PodIP:              ip,
		PodIPs:             []corev1.PodIP{{IP: ip}},
		StartTime:          &created,
		Conditions:         t.conditions(created, ready),
		ContainerStatuses:  make([]corev1.ContainerStatus, len(t.statuses)),
	}
	if t.g.shape.Older {
		pod.Status.PodIPs = nil
	}
	if t.level > levelTiny {
		pod.Status.HostIP = nodeIP(node)
		pod.Status.HostIPs = []corev1.HostIP{{IP: nodeIP(node)}}
	}
	copy(pod.Status.ContainerStatuses, t.statuses)
	for n := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[n]
		status.ContainerID = "containerd://" + draw.hex(64)
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: later(created, 3*time.Second)}
	}
}

// conditions returns the pod's conditions. Ready comes first, because every level
// has it.
func (t *podTemplate) conditions(created, ready metav1.Time) []corev1.PodCondition {
	condition := func(kind corev1.PodConditionType, at metav1.Time) corev1.PodCondition {
		c := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: at}
		if t.level >= levelTypical {
			c.ObservedGeneration = 1
		}
		return c
	}
	conditions := []corev1.PodCondition{condition(corev1.PodReady, ready)}
	if t.level != levelTiny {
		conditions = append(conditions, condition(corev1.PodScheduled, created))
	}
	if t.level != levelTiny && t.level != levelManaged {
		conditions = append(conditions,
			condition(corev1.PodReadyToStartContainers, later(created, 2*time.Second)),
			condition(corev1.PodInitialized, created),
			condition(corev1.ContainersReady, ready))
	}
	return conditions
}

func (t *podTemplate) managedFields(pod *corev1.Pod, w workload) []metav1.ManagedFieldsEntry {
	fields := []metav1.ManagedFieldsEntry{
		managedEntry("kube-controller-manager", "", pod.CreationTimestamp, t.createdFields.render(string(w.uid))),
	}
	if t.level >= levelReported && pod.Status.Phase == corev1.PodRunning {
		reported := t.statusFields.render(pod.Status.PodIP)
		fields = append(fields, managedEntry("kubelet", "status", pod.Status.Conditions[0].LastTransitionTime, reported))
	}
	return fields
}
