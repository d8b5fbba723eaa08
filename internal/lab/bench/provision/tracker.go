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

// tracker notes when each pod takes its steps, and when each watcher gets each event. It
// implements hollow.Observer.
//
// Only the first watcher decodes pods: it stands for all programs that wait for a pod. The
// others note revisions of the run's pods, which are joined with the clock after the run.
type tracker struct {
	name     string // the value of hollow.Label on the pods
	label    encodedLabel
	wanted   int // pods
	clock    *clock
	watchers []watcherLog
	most     int           // deliveries that are kept of each watcher
	started  chan struct{} // closed once all nodes have started
	// firstRuns says that the pod runs of which nothing is measured, and measuring that
	// events are noted.
	firstRuns, measuring atomic.Bool

	mu struct {
		sync.Mutex
		pods map[types.UID]*podLog
		// ready is how many pods run, and lastReady the revision at which the last one did.
		ready     int
		lastReady int64
	}
}

// podLog is the steps of one pod. Steps that were not seen have no time.
type podLog struct {
	created, bound, ready seenStep
	adopted               time.Time
}

// seenStep is when the first watcher saw a step, and the revision that has it.
type seenStep struct {
	revision int64
	at       time.Time
}

func (s *seenStep) note(revision int64, at time.Time) {
	if s.at.IsZero() {
		s.revision, s.at = revision, at
	}
}

// watcherLog is what one watcher has received. Its slice belongs to the watcher's goroutine
// until the run has ended.
type watcherLog struct {
	last      atomic.Int64 // revision of the last event
	synced    atomic.Int64 // lists that were completed: the first one, and relists
	delivered []delivery
	leftOut   int // deliveries beyond the tracker's bound
}

// delivery is one event at one watcher.
type delivery struct {
	revision int64
	at       time.Time
}

func newTracker(name string, pods, watchers int, c *clock) *tracker {
	t := &tracker{name: name, label: encodeLabel(name), wanted: pods, clock: c, watchers: make([]watcherLog, watchers), most: maxDeliveries / watchers, started: make(chan struct{})}
	t.mu.pods = map[types.UID]*podLog{}
	return t
}

// Started implements hollow.Observer.
func (t *tracker) Started() { close(t.started) }

// Synced implements hollow.Observer.
func (t *tracker) Synced(watcher int) { t.watchers[watcher].synced.Add(1) }

// Reported implements hollow.Observer.
func (t *tracker) Reported(revision []byte, at time.Time) { t.clock.answered(string(revision), at) }

// Adopted implements hollow.Observer.
func (t *tracker) Adopted(uid types.UID, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.logLocked(uid).adopted = at
}

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
	// Objects of a list are older than their delivery.
	if !e.Initial && t.measuring.Load() && t.label.in(e.Object, e.Form) {
		if len(log.delivered) < t.most {
			log.delivered = append(log.delivered, delivery{revision, e.At})
		} else {
			log.leftOut++
		}
	}
	if watcher == 0 && e.Kind != watchevent.Deleted {
		t.see(&e, revision)
	}
	if revision > log.last.Load() {
		log.last.Store(revision)
	}
}

// see notes the steps of a pod of the run.
func (t *tracker) see(e *hollow.PodEvent, revision int64) {
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
	log.created.note(revision, e.At)
	if pod.Spec.NodeName != "" {
		log.bound.note(revision, e.At)
	}
	if isReady(&pod) && log.ready.at.IsZero() {
		log.ready.note(revision, e.At)
		t.mu.ready++
		t.mu.lastReady = max(t.mu.lastReady, revision)
	}
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// synced is how many watchers have all pods.
func (t *tracker) synced() (n int) {
	for i := range t.watchers {
		if t.watchers[i].synced.Load() > 0 {
			n++
		}
	}
	return n
}

// progress says how many pods exist, are bound and run.
func (t *tracker) progress() (created, bound, ready int) {
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

// done reports whether all pods run, and every watcher and the clock know.
func (t *tracker) done() bool {
	t.mu.Lock()
	ready, last := t.mu.ready, t.mu.lastReady
	t.mu.Unlock()
	if ready < t.wanted || !t.clock.knows(last) {
		return false
	}
	for i := range t.watchers {
		if t.watchers[i].last.Load() < last {
			return false
		}
	}
	return true
}

// of is the time of a step's write, or of its first sight if the clock does not know it.
func (t *tracker) of(s seenStep) time.Time {
	if at, ok := t.clock.at(s.revision); ok {
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
			t.clock.delivered(d.revision, d.at)
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
			continue // a pod of somebody else, on one of our nodes
		}
		created, bound := t.of(log.created), t.of(log.bound)
		add(stepBind, created, bound)
		add(stepKubelet, bound, log.adopted)
		add(stepRun, bound, log.ready.at)
		add(stepProvision, created, log.ready.at)
	}
	for i := range t.watchers {
		for _, d := range t.watchers[i].delivered {
			if at, ok := t.clock.at(d.revision); ok {
				add(stepWatch, at, d.at)
			}
		}
	}
	for _, samples := range all {
		slices.SortFunc(samples, cmp.Compare[time.Duration])
	}
	return all
}

// deliveries is how many events of the run's pods all watchers together have received, leftOut
// how many of them were not kept, and relists how often one had to list anew. It must be called
// after the run.
func (t *tracker) deliveries() (events, leftOut, relists int) {
	for i := range t.watchers {
		log := &t.watchers[i]
		events += len(log.delivered)
		leftOut += log.leftOut
		relists += max(0, int(log.synced.Load())-1)
	}
	return events + leftOut, leftOut, relists
}

// writes is how many writes with deliveries have a known time, and how many of these were
// known first by a delivery. It must be called after samples.
func (t *tracker) writes() (known, lowered int) {
	seen := map[int64]bool{}
	for i := range t.watchers {
		for _, d := range t.watchers[i].delivered {
			if _, ok := t.clock.at(d.revision); !ok || seen[d.revision] {
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

// encodedLabel is the label of the run's pods as objects have it, in both forms. Watchers look
// for it without decoding the object: that would take the CPU that is measured.
type encodedLabel struct{ protobuf, json []byte }

func encodeLabel(name string) encodedLabel {
	entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), hollow.Label)
	return encodedLabel{
		protobuf: protowire.AppendString(protowire.AppendTag(entry, 2, protowire.BytesType), name),
		json:     fmt.Appendf(nil, "%q:%q", hollow.Label, name), // neither needs escapes
	}
}

// in reports whether an object has the label.
func (l *encodedLabel) in(object []byte, form watchevent.Form) bool {
	if form == watchevent.Protobuf {
		return bytes.Contains(watchevent.Field(object, 1), l.protobuf)
	}
	return bytes.Contains(watchevent.Member(watchevent.Member(object, "metadata"), "labels"), l.json)
}
