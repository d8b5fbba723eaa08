package hollow

import (
	"time"

	"github.com/millrace/millrace/internal/tool/agentprofile"
	"github.com/millrace/millrace/internal/wire/watchevent"
)

// newPodWatcher returns the agent of Config.PodWatchers: an informer of all pods, such as
// schedulers, network policy agents and monitoring have.
func newPodWatcher() (*agentprofile.Agent, error) {
	return agentprofile.New(agentprofile.Agent{
		Name: "pod-watcher", Per: agentprofile.PerCluster, User: "system:serviceaccount:kube-system:pod-watcher",
		Reads: []agentprofile.Read{{Resource: "v1/pods", Mode: agentprofile.ModeWatchList,
			Encoding: agentprofile.EncodingProtobuf, OwnPods: true}},
	})
}

// podWatcher passes the events of one watcher to the observer. It implements podSink.
type podWatcher struct {
	observer Observer
	number   int
	initial  bool // a list is being received
}

func (w *podWatcher) beginList() { w.initial = true }

func (w *podWatcher) observePod(kind string, object []byte, form watchevent.Form) {
	w.observer.Watched(w.number, PodEvent{Kind: kind, Object: object, Form: form, Initial: w.initial, At: time.Now()})
}

func (w *podWatcher) endList() {
	w.initial = false
	w.observer.Synced(w.number)
}
