package hollow

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/wire/watchevent"
)

// Observer receives what a run sees, for programs that measure with hollow nodes. The
// goroutines that read connections call its methods, several at a time and with locks held.
// So methods must be quick, and must not call this package.
type Observer interface {
	// Started is called when all nodes are ready and all their programs have started.
	Started()
	// Adopted is called when a kubelet receives a pod that it did not have.
	Adopted(uid types.UID, at time.Time)
	// Reported is called when a kubelet has written a pod's status. It receives the revision of
	// the pod, which is valid during the call, and the time of the answer.
	Reported(revision []byte, at time.Time)
	// Watched is called for each event of one of Config.PodWatchers. The calls for one watcher
	// do not overlap.
	Watched(watcher int, e PodEvent)
	// Synced is called when a watcher has all pods, and again after each relist.
	Synced(watcher int)
}

// InformerObserver receives the states of a run's informers: its reads that watch. Its methods
// are called in the same way as an Observer's.
type InformerObserver interface {
	// Started is called when all nodes are ready and all their programs have started.
	Started()
	// Informer is called whenever the state of an informer changes. An informer exists from its
	// first InformerListing to InformerEnded.
	Informer(number uint64, state InformerState)
	// Failed is called for each error of any request. kind starts with the status code, if
	// there is one.
	Failed(kind string)
}

// InformerState is the state of an informer.
//
//	listing ───▶ synced ◀───▶ lost
//	   ▲                        │ its version is too old
//	   └────────────────────────┘
//
// Every state leads to ended.
type InformerState int

const (
	// InformerListing: the informer reads all objects, with a LIST or with a watch that starts
	// with them.
	InformerListing InformerState = iota
	// InformerSynced: the informer has all objects and an open watch.
	InformerSynced
	// InformerLost: the informer has lost its watch.
	InformerLost
	InformerEnded
)

// PodEvent is an event of a watcher of all pods. Its bytes are valid during the call.
type PodEvent struct {
	Kind   string // one of the values of watchevent.Event.Type
	Object []byte
	Form   watchevent.Form
	// Initial marks a pod of a list, which need not be new.
	Initial bool
	At      time.Time
}
