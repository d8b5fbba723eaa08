package hollow

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/tool/agentprofile"
	"github.com/millrace/millrace/internal/wire/watchevent"
)

// Observer is told what a run sees, for programs that measure with hollow nodes. Its methods
// are called with locks held by the goroutines that read connections, many at a time: they
// must be quick, and call nothing of this package.
type Observer interface {
	// Started says that all nodes are ready, and that all their programs have begun.
	Started()
	// Adopted says that a kubelet has a pod that it did not have.
	Adopted(uid types.UID, at time.Time)
	// Reported gets the revision of a pod whose status a kubelet has written, and when the
	// answer came.
	Reported(revision []byte, at time.Time)
	// Watched gets an event of one of Config.PodWatchers. The calls of one watcher do not
	// overlap.
	Watched(watcher int, e PodEvent)
	// Synced says that a watcher has all pods. It may be called again, after a relist.
	Synced(watcher int)
}

// PodEvent is an event of a watcher of all pods. Its bytes are valid during the call.
type PodEvent struct {
	Kind   string // as watchevent.Event.Type
	Object []byte
	Form   watchevent.Form
	// Initial says that the pod is part of a list, and is no news.
	Initial bool
	At      time.Time
}

// newPodWatcher is the agent of Config.PodWatchers: an informer of all pods, as schedulers,
// network policies and monitoring have it.
func newPodWatcher() (*agentprofile.Agent, error) {
	return agentprofile.New(agentprofile.Agent{
		Name: "pod-watcher", Per: agentprofile.PerCluster, User: "system:serviceaccount:kube-system:pod-watcher",
		Reads: []agentprofile.Read{{Resource: "v1/pods", Mode: agentprofile.ModeWatchList, Form: agentprofile.FormProtobuf, OwnPods: true}},
	})
}

// podWatcher gives the events of one watcher to the observer. It implements podSink.
type podWatcher struct {
	observer Observer
	number   int
	initial  bool
}

func (w *podWatcher) restart() { w.initial = true }

func (w *podWatcher) pod(kind string, object []byte, form watchevent.Form) {
	w.observer.Watched(w.number, PodEvent{Kind: kind, Object: object, Form: form, Initial: w.initial, At: time.Now()})
}

func (w *podWatcher) synced() {
	w.initial = false
	w.observer.Synced(w.number)
}
