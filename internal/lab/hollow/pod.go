package hollow

import (
	"cmp"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/wire/watchevent"
)

// pod is a pod of a node, with what its status needs. The lock of the node guards objects and the
// fields below. The fields above objects do not change.
//
//	         report creating        report running          report succeeded
//	starting ───────────────▶ ready? ─────────────▶ running ────────────────▶ completed
//	    │                                               │                         │
//	    └───────────────── deletion asked for ──────────┴─────────────────────────┘
//	                                │
//	                           terminating ── report terminated, delete ──▶ (forgotten)
type pod struct {
	namespace, name string
	uid             types.UID
	containers      []corev1.Container
	initContainers  []corev1.Container
	hostNetwork     bool
	runFor          time.Duration // 0: it does not complete
	startAfter      time.Duration
	created         metav1.Time
	address         string
	objects         []objectKey

	phase   podPhase
	started metav1.Time // of the containers
	grace   time.Duration
	listed  bool // the newest list has the pod
}

type podPhase int

const (
	podStarting podPhase = iota
	podRunning
	podCompleted
	podTerminating
)

// beginList implements podSink.
func (n *node) beginList() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.listing = true
	for _, p := range n.mu.pods {
		p.listed = false
	}
}

// endList implements podSink. Pods that the list did not have are gone.
func (n *node) endList() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.mu.listing {
		return
	}
	n.mu.listing = false
	for _, p := range n.mu.pods {
		if !p.listed {
			n.forgetLocked(p)
		}
	}
}

// observePod implements podSink.
func (n *node) observePod(kind string, object []byte, form watchevent.Form) {
	var seen corev1.Pod
	var err error
	if form == watchevent.Protobuf {
		err = seen.Unmarshal(object)
	} else {
		err = json.Unmarshal(object, &seen)
	}
	if err != nil {
		n.fleet.writes.getPod.noteError("a pod that cannot be read")
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.stopped {
		return
	}
	known := n.mu.pods[seen.UID]
	if kind == watchevent.Deleted {
		if known != nil {
			n.forgetLocked(known)
		}
		return
	}
	if known == nil {
		known = n.adoptLocked(&seen)
		if o := n.fleet.cfg.Observer; o != nil {
			o.Adopted(seen.UID, time.Now())
		}
	}
	known.listed = true
	if seen.DeletionTimestamp != nil && known.phase != podTerminating {
		n.terminateLocked(known, &seen)
	}
}

// adoptLocked adds a pod that is new to this kubelet, and schedules its next step. The pod may
// have run before.
func (n *node) adoptLocked(seen *corev1.Pod) *pod {
	cfg := &n.fleet.cfg
	p := &pod{
		namespace: seen.Namespace, name: seen.Name, uid: seen.UID, hostNetwork: seen.Spec.HostNetwork,
		containers: slim(seen.Spec.Containers), initContainers: slim(seen.Spec.InitContainers),
		startAfter: annotatedTime(seen, StartAfterAnnotation, cfg.PodStart), created: seen.CreationTimestamp,
		address: cmp.Or(seen.Status.PodIP, n.hostAddress()), objects: objectsOf(seen),
	}
	if seen.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		p.runFor = max(annotatedTime(seen, RunForAnnotation, cfg.JobDuration), time.Millisecond)
	}
	if !p.hostNetwork && seen.Status.PodIP == "" {
		n.mu.nextPod = n.mu.nextPod%250 + 1
		p.address = n.podAddress(n.mu.nextPod)
	}
	n.mu.pods[p.uid] = p
	switch seen.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed:
		p.phase = podCompleted
		return p
	case corev1.PodRunning:
		p.started = metav1.Now()
		n.markRunningLocked(p)
	default:
		n.scheduleStepLocked(p, 0, n.startPod)
	}
	n.acquireLocked(p)
	return p
}

// slim returns copies of containers with only the fields that a status needs.
func slim(containers []corev1.Container) []corev1.Container {
	slimmed := make([]corev1.Container, len(containers))
	for i, c := range containers {
		slimmed[i] = corev1.Container{Name: c.Name, Image: c.Image, RestartPolicy: c.RestartPolicy}
	}
	return slimmed
}

// annotatedTime returns the duration in an annotation of a pod, or fallback if it is missing or
// invalid.
func annotatedTime(seen *corev1.Pod, annotation string, fallback time.Duration) time.Duration {
	if d, err := time.ParseDuration(seen.Annotations[annotation]); err == nil && d >= 0 {
		return d
	}
	return fallback
}

// scheduleStepLocked runs the next step of a pod after a pause. It replaces a step that is
// already scheduled.
func (n *node) scheduleStepLocked(p *pod, pause time.Duration, step func(*pod)) {
	n.scheduleLocked("pod "+string(p.uid), pause, func() { step(p) })
}

// proceed calls then with the node's lock held, if the pod still exists and is in phase from.
func (n *node) proceed(p *pod, from podPhase, then func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.pods[p.uid] == p && p.phase == from {
		then()
	}
}

// startPod reports that containers are being created, and schedules their start.
func (n *node) startPod(p *pod) {
	ok := n.reportPod(p, creatingStatus(p, n))
	n.proceed(p, podStarting, func() {
		if !ok {
			n.scheduleStepLocked(p, n.random.choose(retryEvery), n.startPod)
			return
		}
		n.scheduleStepLocked(p, n.random.chooseBetween(p.startAfter, p.startAfter*3/2), n.runPod)
	})
}

// runPod reports that the pod is ready.
func (n *node) runPod(p *pod) {
	started := metav1.Now()
	ok := n.reportPod(p, runningStatus(p, n, started))
	n.proceed(p, podStarting, func() {
		if !ok {
			n.scheduleStepLocked(p, n.random.choose(retryEvery), n.runPod)
			return
		}
		p.started = started
		n.markRunningLocked(p)
	})
}

// markRunningLocked counts a running pod, and schedules the completion of a pod of a job.
func (n *node) markRunningLocked(p *pod) {
	p.phase = podRunning
	n.fleet.podsRunning.Add(1)
	if p.runFor > 0 {
		n.scheduleStepLocked(p, p.runFor, n.completePod)
	}
}

// completePod reports that the containers have ended.
func (n *node) completePod(p *pod) {
	ok := n.reportPod(p, endedStatus(p, n))
	n.proceed(p, podRunning, func() {
		if !ok {
			n.scheduleStepLocked(p, n.random.choose(retryEvery), n.completePod)
			return
		}
		p.phase = podCompleted
		n.fleet.podsRunning.Add(-1)
		n.fleet.podsDone.Add(1)
		n.releaseLocked(p)
	})
}

// terminateLocked ends a pod that is to be deleted: its containers stop within a second, or
// within its grace period if that is shorter.
func (n *node) terminateLocked(p *pod, seen *corev1.Pod) {
	if p.phase == podRunning {
		n.fleet.podsRunning.Add(-1)
	}
	mustReport := p.phase == podRunning || p.phase == podStarting
	p.phase = podTerminating
	p.grace = time.Second
	if seconds := seen.DeletionGracePeriodSeconds; seconds != nil {
		p.grace = min(p.grace, time.Duration(*seconds)*time.Second)
	}
	step := n.deletePod
	if mustReport {
		step = n.endPod
	}
	n.scheduleStepLocked(p, n.random.chooseBetween(p.grace/2, p.grace), step)
}

// endPod reports that the containers of a pod have stopped, and deletes it.
func (n *node) endPod(p *pod) {
	ok := n.reportPod(p, endedStatus(p, n))
	n.proceed(p, podTerminating, func() {
		if !ok {
			n.scheduleStepLocked(p, n.random.choose(retryEvery), n.endPod)
			return
		}
		n.scheduleStepLocked(p, 0, n.deletePod)
	})
}

// forgetLocked drops a pod that is gone.
func (n *node) forgetLocked(p *pod) {
	if p.phase == podRunning {
		n.fleet.podsRunning.Add(-1)
	}
	delete(n.mu.pods, p.uid)
	name := "pod " + string(p.uid)
	if timer := n.mu.timers[name]; timer != nil {
		timer.Stop()
		delete(n.mu.timers, name)
	}
	n.releaseLocked(p)
}
