package provision

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/lab/hollow"
	"github.com/millrace/millrace/internal/wire/watchevent"
)

// start is when a test's pods are created.
var start = time.Unix(1_700_000_000, 0)

func after(d time.Duration) time.Time { return start.Add(d) }

// event returns an event of a pod at a revision, in protobuf or as JSON.
func event(t *testing.T, uid string, revision int, node string, ready bool, form watchevent.Form) hollow.PodEvent {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: strconv.Itoa(revision), Labels: map[string]string{hollow.Label: "x"}}}
	pod.Spec.NodeName = node
	if ready {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	object, err := pod.Marshal()
	if form == watchevent.JSON {
		object, err = json.Marshal(pod)
	}
	if err != nil {
		t.Fatal(err)
	}
	return hollow.PodEvent{Kind: watchevent.Modified, Object: object, Form: form}
}

// first makes the first pod run, of which nothing is measured.
func first(t *testing.T, tracked *tracker) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "first", ResourceVersion: "5", Labels: map[string]string{hollow.Label: "x", appLabel: firstName("x")}}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	object, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	tracked.Watched(0, hollow.PodEvent{Kind: watchevent.Modified, Object: object, Form: watchevent.Protobuf, At: start})
	if !tracked.firstRuns.Load() {
		t.Error("the first pod does not run")
	}
	tracked.measuring.Store(true)
}

// run gives two watchers the three events of a pod: each 10 ms after its write at the first
// watcher, and 30 ms at the second one.
func run(t *testing.T, tracked *tracker, form watchevent.Form) {
	t.Helper()
	for i, e := range []hollow.PodEvent{
		event(t, "a", 11, "", false, form), event(t, "a", 12, "n", false, form), event(t, "a", 13, "n", true, form),
	} {
		written := time.Duration(i) * time.Second
		for watcher, late := range []time.Duration{10 * time.Millisecond, 30 * time.Millisecond} {
			if tracked.done() {
				t.Error("done before all watchers know")
			}
			e.At = after(written + late)
			tracked.Watched(watcher, e)
		}
	}
	tracked.Adopted("a", after(time.Second+5*time.Millisecond))
	if created, bound, ready := tracked.countPods(); !tracked.done() || created != 1 || bound != 1 || ready != 1 {
		t.Errorf("%d created, %d bound, %d ready", created, bound, ready)
	}
}

// TestTracker checks the times of steps, with the times of writes from etcd.
func TestTracker(t *testing.T) {
	for _, form := range []watchevent.Form{watchevent.Protobuf, watchevent.JSON} {
		c := newClock(true)
		for i := range 3 {
			c.set(int64(11+i), after(time.Duration(i)*time.Second))
		}
		tracked := newTracker("x", 1, 2, c)
		first(t, tracked)
		tracked.Reported([]byte("12"), after(time.Hour)) // etcd knows better
		c.set(13, after(3*time.Second))                  // a busy processor: the first watcher was earlier
		run(t, tracked, form)
		for step, want := range map[string][]time.Duration{
			stepBind: {time.Second}, stepKubelet: {5 * time.Millisecond}, stepRun: {time.Second + 10*time.Millisecond}, stepProvision: {2*time.Second + 10*time.Millisecond},
			stepWatch: {0, 10 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 30 * time.Millisecond, 30 * time.Millisecond},
		} {
			if got := tracked.samples()[step]; !slices.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", step, got, want)
			}
		}
		if known, lowered := tracked.writes(); known != 3 || lowered != 1 {
			t.Errorf("%d writes, of which %d were delivered before etcd's watch had them", known, lowered)
		}
	}
}

// TestTrackerWithoutEtcd checks the times of steps, with the times of answers to writes of this process
// alone. Steps by other programs count from when the first watcher saw them.
func TestTrackerWithoutEtcd(t *testing.T) {
	c := newClock(false)
	tracked := newTracker("x", 1, 2, c)
	first(t, tracked)
	tracked.Reported([]byte("13"), after(2*time.Second+15*time.Millisecond)) // after the first watcher knows
	run(t, tracked, watchevent.Protobuf)
	samples := tracked.samples()
	if got := samples[stepProvision]; !slices.Equal(got, []time.Duration{2 * time.Second}) {
		t.Errorf("provision: got %v", got)
	}
	if got := samples[stepWatch]; !slices.Equal(got, []time.Duration{0, 20 * time.Millisecond}) {
		t.Errorf("watch: got %v", got)
	}
}

// TestTrackerAwaitsClock checks that the tracker is not done before the last write's time is known.
func TestTrackerAwaitsClock(t *testing.T) {
	c := newClock(true)
	tracked := newTracker("x", 1, 1, c)
	first(t, tracked)
	e := event(t, "a", 13, "n", true, watchevent.Protobuf)
	e.At = start
	tracked.Watched(0, e)
	if tracked.done() {
		t.Error("done without the last write's time")
	}
	if c.set(13, start); !tracked.done() {
		t.Error("not done")
	}
}

// TestTrackerIgnores checks that the tracker ignores objects of LISTs, which are old, and pods that are
// not of the run.
func TestTrackerIgnores(t *testing.T) {
	c := newClock(true)
	c.set(11, start)
	tracked := newTracker("other", 1, 1, c)
	tracked.measuring.Store(true)
	e := event(t, "a", 11, "n", true, watchevent.Protobuf)
	e.Initial = true
	tracked.Watched(0, e)
	tracked.Adopted("b", start)
	tracked.Synced(0)
	tracked.Synced(0)
	if samples := tracked.samples(); len(samples) != 0 || tracked.done() {
		t.Errorf("got %v", samples)
	}
	if events, _, relists := tracked.deliveries(); events != 0 || relists != 1 {
		t.Errorf("%d events, %d relists", events, relists)
	}
}

// TestTrackerIsBounded checks that a busy cluster does not fill the memory. The tracker keeps nothing of
// other pods, and no more deliveries of the run's pods than the bound.
func TestTrackerIsBounded(t *testing.T) {
	for _, form := range []watchevent.Form{watchevent.Protobuf, watchevent.JSON} {
		for name, want := range map[string][2]int{"x": {3, 1}, "other": {}, "": {}} {
			tracked := newTracker(name, 1, 1, newClock(true))
			tracked.maxKept = 2
			tracked.measuring.Store(true)
			for revision := range 3 {
				tracked.Watched(0, event(t, "a", 11+revision, "n", false, form))
			}
			if events, leftOut, _ := tracked.deliveries(); [2]int{events, leftOut} != want {
				t.Errorf("%q: %d events, %d left out, want %v", name, events, leftOut, want)
			}
		}
	}
}
