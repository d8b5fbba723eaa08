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

// InformerObserver is told what becomes of the informers of a run: its reads that watch. Its
// methods are called as those of an Observer.
type InformerObserver interface {
	// Started says that all nodes are ready, and that all their programs have begun.
	Started()
	// Informer tells the state of an informer whenever it changes. An informer exists from its
	// first InformerListing to InformerEnded.
	Informer(number uint64, state InformerState)
	// Failed gets the kind of each error, of any request. A status is at its beginning.
	Failed(kind string)
}

// InformerState is what an informer does.
//
//	listing ───▶ synced ◀───▶ lost
//	   ▲                        │ its version is too old
//	   └────────────────────────┘
//
// Each leads to ended.
type InformerState int

const (
	// InformerListing asks for all objects: with a LIST, or with a watch that begins with them.
	InformerListing InformerState = iota
	// InformerSynced has all objects, and an open watch.
	InformerSynced
	// InformerLost has lost its watch.
	InformerLost
	InformerEnded
)

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
		Reads: []agentprofile.Read{{Resource: "v1/pods", Mode: agentprofile.ModeWatchList, Encoding: agentprofile.EncodingProtobuf, OwnPods: true}},
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
