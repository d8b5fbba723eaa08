package provision

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/lab/hollow"
	"github.com/millrace/millrace/internal/wire/watchevent"
)

// tracker records when each pod takes its steps, and when each watcher gets each event. It implements
// hollow.Observer.
//
// Only the first watcher decodes pods: it stands for all programs that wait for a pod. The other
// watchers record revisions of the run's pods. After the run, revisions are joined with the clock.
type tracker struct {
	name     string // the value of hollow.Label on the pods
	label    encodedLabel
	wanted   int // number of pods of the run
	clock    *clock
	watchers []watcherLog
	maxKept  int           // bounds the deliveries that are kept of each watcher
	started  chan struct{} // closed once all nodes have started
	// firstRuns is set once the first pod runs, of which nothing is measured. Deliveries are recorded
	// while measuring is set.
	firstRuns, measuring atomic.Bool

	mu struct {
		sync.Mutex
		pods map[types.UID]*podLog
		// ready is the number of pods that run. lastReady is the highest revision at which one did.
		ready     int
		lastReady int64
	}
}

// podLog has the steps of one pod. The time of a step that was not seen is zero.
type podLog struct {
	created, bound, ready seenStep
	adopted               time.Time // when the node's kubelet saw the pod
}

// seenStep is the time when the first watcher saw a step, and the revision that has the step.
type seenStep struct {
	revision int64
	at       time.Time
}

// set sets the step, unless it was seen before.
func (s *seenStep) set(revision int64, at time.Time) {
	if s.at.IsZero() {
		s.revision, s.at = revision, at
	}
}

// watcherLog is what one watcher has received. Its slice belongs to the watcher's goroutine
// until the run has ended.
type watcherLog struct {
	last      atomic.Int64 // revision of the last event
	synced    atomic.Int64 // number of completed LISTs: the first LIST, and relists
	delivered []delivery
	leftOut   int // number of deliveries beyond maxKept
}

// delivery is one event at one watcher.
type delivery struct {
	revision int64
	at       time.Time
}

// newTracker returns a tracker of a number of pods and watchers. name is the name of the run.
func newTracker(name string, pods, watchers int, c *clock) *tracker {
	t := &tracker{name: name, label: encodeLabel(name), wanted: pods, clock: c, watchers: make([]watcherLog, watchers),
		maxKept: maxDeliveries / watchers, started: make(chan struct{})}
	t.mu.pods = map[types.UID]*podLog{}
	return t
}

// Started implements hollow.Observer.
func (t *tracker) Started() { close(t.started) }

// Synced implements hollow.Observer.
func (t *tracker) Synced(watcher int) { t.watchers[watcher].synced.Add(1) }

// Reported implements hollow.Observer.
func (t *tracker) Reported(revision []byte, at time.Time) {
	t.clock.setFromAnswer(string(revision), at)
}

// Adopted implements hollow.Observer.
func (t *tracker) Adopted(uid types.UID, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.logLocked(uid).adopted = at
}

// logLocked returns the log of a pod, which it makes if there is none. t.mu must be held.
func (t *tracker) logLocked(uid types.UID) *podLog {
	log := t.mu.pods[uid]
	if log == nil {
		log = &podLog{}
		t.mu.pods[uid] = log
	}
	return log
}

// Watched implements hollow.Observer.
func (t *tracker) Watched(watcher int, e hollow.PodEvent) {
	revision, err := strconv.ParseInt(string(watchevent.Revision(e.Object, e.Form)), 10, 64)
	if err != nil {
		return
	}
	log := &t.watchers[watcher]
	// The objects of a LIST were written long before their delivery.
	if !e.Initial && t.measuring.Load() && t.label.isIn(e.Object, e.Form) {
		if len(log.delivered) < t.maxKept {
			log.delivered = append(log.delivered, delivery{revision, e.At})
		} else {
			log.leftOut++
		}
	}
	if watcher == 0 && e.Kind != watchevent.Deleted {
		t.noteSteps(&e, revision)
	}
	if revision > log.last.Load() {
		log.last.Store(revision)
	}
}

// noteSteps records the steps of a pod of the run, by an event of the first watcher.
func (t *tracker) noteSteps(e *hollow.PodEvent, revision int64) {
	var pod corev1.Pod
	var err error
	if e.Form == watchevent.Protobuf {
		err = pod.Unmarshal(e.Object)
	} else {
		err = json.Unmarshal(e.Object, &pod)
	}
	if err != nil || pod.Labels[hollow.Label] != t.name {
		return
	}
	if pod.Labels[appLabel] == firstName(t.name) {
		if isReady(&pod) {
			t.firstRuns.Store(true)
		}
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	log := t.logLocked(pod.UID)
	log.created.set(revision, e.At)
	if pod.Spec.NodeName != "" {
		log.bound.set(revision, e.At)
	}
	if isReady(&pod) && log.ready.at.IsZero() {
		log.ready.set(revision, e.At)
		t.mu.ready++
		t.mu.lastReady = max(t.mu.lastReady, revision)
	}
}

// isReady reports whether a pod has the condition Ready.
func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// syncedWatchers returns the number of watchers that have all pods.
func (t *tracker) syncedWatchers() (n int) {
	for i := range t.watchers {
		if t.watchers[i].synced.Load() > 0 {
			n++
		}
	}
	return n
}

// countPods returns the numbers of pods that exist, that are bound and that run.
func (t *tracker) countPods() (created, bound, ready int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, log := range t.mu.pods {
		if !log.created.at.IsZero() {
			created++
		}
		if !log.bound.at.IsZero() {
			bound++
		}
	}
	return created, bound, t.mu.ready
}

// done reports whether all pods run, and whether every watcher and the clock have the last event.
func (t *tracker) done() bool {
	t.mu.Lock()
	ready, last := t.mu.ready, t.mu.lastReady
	t.mu.Unlock()
	if ready < t.wanted || !t.clock.needNotWait(last) {
		return false
	}
	for i := range t.watchers {
		if t.watchers[i].last.Load() < last {
			return false
		}
	}
	return true
}

// stepTime returns the time of a step's write, or when the first watcher saw it if the clock does not
// have the write.
func (t *tracker) stepTime(s seenStep) time.Time {
	if at, ok := t.clock.writeTime(s.revision); ok {
		return at
	}
	return s.at
}

// samples returns the times of all steps, sorted. It must be called after the run.
func (t *tracker) samples() map[string][]time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.watchers {
		for _, d := range t.watchers[i].delivered {
			t.clock.lowerToDelivery(d.revision, d.at)
		}
	}
	all := map[string][]time.Duration{}
	add := func(step string, from, to time.Time) {
		if !from.IsZero() && !to.IsZero() {
			all[step] = append(all[step], max(0, to.Sub(from)))
		}
	}
	for _, log := range t.mu.pods {
		if log.created.at.IsZero() {
			continue // not a pod of the run, but on one of its nodes
		}
		created, bound := t.stepTime(log.created), t.stepTime(log.bound)
		add(stepBind, created, bound)
		add(stepKubelet, bound, log.adopted)
		add(stepRun, bound, log.ready.at)
		add(stepProvision, created, log.ready.at)
	}
	for i := range t.watchers {
		for _, d := range t.watchers[i].delivered {
			if at, ok := t.clock.writeTime(d.revision); ok {
				add(stepWatch, at, d.at)
			}
		}
	}
	for _, samples := range all {
		slices.SortFunc(samples, cmp.Compare[time.Duration])
	}
	return all
}

// deliveries returns three numbers for all watchers together: received events of the run's pods, how many of
// the events were not kept, and relists. It must be called after the run.
func (t *tracker) deliveries() (events, leftOut, relists int) {
	for i := range t.watchers {
		log := &t.watchers[i]
		events += len(log.delivered)
		leftOut += log.leftOut
		relists += max(0, int(log.synced.Load())-1)
	}
	return events + leftOut, leftOut, relists
}

// writes returns the number of writes with deliveries and a known time. lowered is the number of writes
// whose time is that of a delivery. It must be called after samples.
func (t *tracker) writes() (known, lowered int) {
	seen := map[int64]bool{}
	for i := range t.watchers {
		for _, d := range t.watchers[i].delivered {
			if _, ok := t.clock.writeTime(d.revision); !ok || seen[d.revision] {
				continue
			}
			seen[d.revision] = true
			known++
			if t.clock.wasLowered(d.revision) {
				lowered++
			}
		}
	}
	return known, lowered
}

// encodedLabel is the label of the run's pods as encoded objects have it, in both forms. Watchers look
// for it without decoding the object, which would take CPU from the servers.
type encodedLabel struct{ protobuf, json []byte }

// encodeLabel returns the label of the run name.
func encodeLabel(name string) encodedLabel {
	entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), hollow.Label)
	return encodedLabel{
		protobuf: protowire.AppendString(protowire.AppendTag(entry, 2, protowire.BytesType), name),
		json:     fmt.Appendf(nil, "%q:%q", hollow.Label, name), // neither needs escapes
	}
}

// isIn reports whether an encoded object has the label.
func (l *encodedLabel) isIn(object []byte, form watchevent.Form) bool {
	if form == watchevent.Protobuf {
		return bytes.Contains(watchevent.Field(object, 1), l.protobuf)
	}
	return bytes.Contains(watchevent.Member(watchevent.Member(object, "metadata"), "labels"), l.json)
}
