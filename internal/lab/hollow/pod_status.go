package hollow

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/conn/watchclient"
	"github.com/millrace/millrace/internal/wire/watchevent"
)

func podPath(p *pod) string { return fmt.Sprintf("/api/v1/namespaces/%s/pods/%s", p.namespace, p.name) }

// reportPod writes a status as the kubelet does: it reads the pod and patches its status. It
// returns false if it must be tried again, and forgets a pod that is gone.
func (n *node) reportPod(p *pod, status *corev1.PodStatus) bool {
	ctx := n.fleet.ctx
	answer, err := n.kubelet.call(ctx, n.fleet.writes.getPod, &watchclient.Request{Method: "GET", URI: podPath(p), Accept: acceptProtobuf})
	switch {
	case err != nil:
		return false
	case answer.Status == 404 ||
		answer.OK() && string(watchevent.Field(watchevent.Field(watchevent.Unwrap(answer.Body), 1), 5)) != string(p.uid):
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.mu.pods[p.uid] == p {
			n.forgetLocked(p)
		}
		return true
	case !answer.OK():
		return false
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.uid}, "status": status})
	if err != nil {
		n.fleet.writes.podStatus.recordFailure(err.Error())
		return false
	}
	answer, err = n.kubelet.call(ctx, n.fleet.writes.podStatus, &watchclient.Request{
		Method: "PATCH", URI: podPath(p) + "/status", Accept: acceptProtobuf, Type: typeStrategicPatch, Body: body,
	})
	if o := n.fleet.cfg.Observer; o != nil && err == nil && answer.OK() {
		o.Reported(watchevent.Revision(watchevent.Unwrap(answer.Body), watchevent.Protobuf), time.Now())
	}
	return err == nil && (answer.OK() || answer.Status == 404)
}

// deletePod deletes a pod whose containers have stopped. The node forgets the pod at the event
// of its deletion.
func (n *node) deletePod(p *pod) {
	now := int64(0)
	body, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta:           metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &p.uid},
	})
	ok := false
	if err == nil {
		var answer *watchclient.Answer
		answer, err = n.kubelet.call(n.fleet.ctx, n.fleet.writes.deletePod,
			&watchclient.Request{Method: "DELETE", URI: podPath(p), Accept: acceptProtobuf, Type: typeJSON, Body: body})
		ok = err == nil && (answer.OK() || answer.Status == 404 || answer.Status == 409)
	}
	if !ok {
		n.proceed(p, podTerminating, func() { n.scheduleStepLocked(p, n.random.choose(retryEvery), n.deletePod) })
	}
}

// baseStatus returns a status with the fields that do not change while a pod lives.
func baseStatus(p *pod, n *node, phase corev1.PodPhase) *corev1.PodStatus {
	return &corev1.PodStatus{
		Phase: phase, StartTime: &p.created,
		HostIP: n.hostAddress(), HostIPs: []corev1.HostIP{{IP: n.hostAddress()}},
	}
}

// podCondition returns a condition. reason is for a condition that does not hold.
func podCondition(kind corev1.PodConditionType, holds bool, reason string) corev1.PodCondition {
	c := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.Now()}
	if holds {
		c.Status = corev1.ConditionTrue
		c.Reason = ""
	}
	return c
}

// podConditions returns the conditions of a pod. ready is about its containers; reason says why
// they are not ready.
func podConditions(sandbox, initialized, ready bool, reason string) []corev1.PodCondition {
	list := []corev1.PodCondition{
		podCondition(corev1.PodReadyToStartContainers, sandbox, ""),
		podCondition(corev1.PodInitialized, initialized, "ContainersNotInitialized"),
		podCondition(corev1.PodReady, ready, reason),
		podCondition(corev1.ContainersReady, ready, reason),
		podCondition(corev1.PodScheduled, true, ""),
	}
	if reason == completedReason {
		list[1].Reason = reason // the kubelet writes it although this condition holds
	}
	return list
}

const (
	notReadyReason  = "ContainersNotReady"
	completedReason = "PodCompleted"
)

// creatingStatus returns the status of a pod whose containers are being created.
func creatingStatus(p *pod, n *node) *corev1.PodStatus {
	s := baseStatus(p, n, corev1.PodPending)
	s.Conditions = podConditions(false, len(p.initContainers) == 0, false, notReadyReason)
	waiting := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	reason := "ContainerCreating"
	if len(p.initContainers) > 0 {
		reason = "PodInitializing"
	}
	s.InitContainerStatuses = containerStatuses(p.initContainers,
		func(corev1.Container) corev1.ContainerState { return waiting("PodInitializing") })
	s.ContainerStatuses = containerStatuses(p.containers, func(corev1.Container) corev1.ContainerState { return waiting(reason) })
	return s
}

// runningStatus returns the status of a pod that is ready.
func runningStatus(p *pod, n *node, started metav1.Time) *corev1.PodStatus {
	s := baseStatus(p, n, corev1.PodRunning)
	s.PodIP, s.PodIPs = p.address, []corev1.PodIP{{IP: p.address}}
	s.Conditions = podConditions(true, true, true, "")
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}
	s.InitContainerStatuses = containerStatuses(p.initContainers, func(c corev1.Container) corev1.ContainerState {
		if c.RestartPolicy != nil { // a sidecar
			return running
		}
		return completedState(started, started)
	})
	s.ContainerStatuses = containerStatuses(p.containers, func(corev1.Container) corev1.ContainerState { return running })
	return s
}

// endedStatus returns the status of a pod whose containers have succeeded.
func endedStatus(p *pod, n *node) *corev1.PodStatus {
	s := baseStatus(p, n, corev1.PodSucceeded)
	started := p.started
	if started.IsZero() {
		started = p.created
	} else {
		s.PodIP, s.PodIPs = p.address, []corev1.PodIP{{IP: p.address}}
	}
	s.Conditions = podConditions(false, true, false, completedReason)
	ended := func(corev1.Container) corev1.ContainerState { return completedState(started, metav1.Now()) }
	s.InitContainerStatuses, s.ContainerStatuses = containerStatuses(p.initContainers, ended), containerStatuses(p.containers, ended)
	return s
}

func completedState(from, to metav1.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: from, FinishedAt: to}}
}

// containerStatuses returns the statuses of containers, each in the state that state returns.
func containerStatuses(containers []corev1.Container, state func(corev1.Container) corev1.ContainerState) []corev1.ContainerStatus {
	var statuses []corev1.ContainerStatus
	for i, c := range containers {
		s := corev1.ContainerStatus{Name: c.Name, Image: c.Image, State: state(c)}
		started := s.State.Running != nil
		s.Started, s.Ready = &started, started
		if s.State.Waiting == nil {
			s.ContainerID, s.ImageID = fmt.Sprintf("containerd://%064x", i), c.Image
		}
		statuses = append(statuses, s)
	}
	return statuses
}
