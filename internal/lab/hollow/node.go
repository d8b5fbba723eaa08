package hollow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/conn/watchclient"
	"github.com/millrace/millrace/internal/tool/agentprofile"
	"github.com/millrace/millrace/internal/wire/watchevent"
)

// The times of a kubelet.
var (
	// renewEvery is a quarter of a lease's duration, with the kubelet's jitter of 4 %.
	renewEvery = agentprofile.Range{Min: 10 * time.Second, Max: 10*time.Second + 400*time.Millisecond}
	// The status is reported every 5 minutes. The first time is spread, as the kubelet's.
	firstReport = agentprofile.Range{Min: 150 * time.Second, Max: 450 * time.Second}
	reportEvery = agentprofile.Range{Min: 5 * time.Minute, Max: 5 * time.Minute}
	// retryEvery is the pause after a report of a pod that failed.
	retryEvery = agentprofile.Range{Min: time.Second, Max: 2 * time.Second}
)

// retryPause returns the time that a kubelet waits, after some failures, before it tries again
// to register or to renew its lease. It is 7 s at most.
func (n *node) retryPause(failures int) time.Duration {
	pause := min(200*time.Millisecond<<min(failures, 10), 7*time.Second)
	return n.random.chooseBetween(pause/2, pause)
}

// writeCounters has the counters of the requests that nodes send besides the reads of profiles.
type writeCounters struct {
	register, getNode, nodeStatus     *counter
	csiNode                           *counter
	getLease, createLease, renewLease *counter
	getPod, podStatus, deletePod      *counter
	createPod                         *counter
}

func newWriteCounters(s *counters) writeCounters {
	const kubelet = "kubelet"
	return writeCounters{
		register: s.get(kubelet, "create", "v1/nodes"), getNode: s.get(kubelet, "get", "v1/nodes"),
		nodeStatus: s.get(kubelet, "patch", "v1/nodes/status"),
		csiNode:    s.get(kubelet, "create", "storage.k8s.io/v1/csinodes"),
		getLease:   s.get(kubelet, "get", leaseResource), createLease: s.get(kubelet, "create", leaseResource),
		renewLease: s.get(kubelet, "update", leaseResource),
		getPod:     s.get(kubelet, "get", "v1/pods"), podStatus: s.get(kubelet, "patch", "v1/pods/status"),
		deletePod: s.get(kubelet, "delete", "v1/pods"),
		createPod: s.get("hollow", "create", "v1/pods"),
	}
}

// node is a hollow node: its kubelet, and the instances of its agents.
//
// Lock order: a reflector's lock before its node's lock. A reflector of a single object calls
// no node, so its lock may be taken while the node's is held.
type node struct {
	fleet   *fleet
	index   int
	name    string
	kubelet *instance
	agents  []*instance
	random  *random
	secrets *readPlan // nil: the profile does not read them
	configs *readPlan

	mu struct {
		sync.Mutex
		stopped  bool
		uid      types.UID
		failures int // renewals of the lease that failed, one after another
		// leaseRevision is the lease's resource version. Empty: it is not known.
		leaseRevision string
		ready         bool
		pods          map[types.UID]*pod
		objects       map[objectKey]*objectWatch
		timers        map[string]*time.Timer
		nextPod       int  // number of the next pod's address
		listing       bool // a new list of pods is being received
	}
	work sync.WaitGroup
}

// programsOfNode bounds the programs of a node. It keeps the numbers of their random sources
// apart.
const programsOfNode = 1 << 12

// newNode returns node i with its instances, none of which has started.
func (f *fleet) newNode(i int) *node {
	n := &node{fleet: f, index: i, name: f.cfg.nodeName(i), random: newRandom(f.cfg.Seed, uint64(i))}
	n.mu.pods, n.mu.objects, n.mu.timers = map[types.UID]*pod{}, map[objectKey]*objectWatch{}, map[string]*time.Timer{}
	program := 0
	add := func(plan *agentPlan) *instance {
		client, shared := f.clientFor(i, program)
		program++
		return f.addInstance(f.newInstance(plan, n.name, uint64(i)*programsOfNode+uint64(program)), client, shared)
	}
	n.kubelet = add(f.kubelet)
	for _, plan := range f.perNode {
		for range plan.Instances {
			n.agents = append(n.agents, add(plan))
		}
	}
	for _, plan := range f.kubelet.reads {
		switch {
		case plan.OfPods && plan.Resource == "v1/secrets":
			n.secrets = plan
		case plan.OfPods && plan.Resource == "v1/configmaps":
			n.configs = plan
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.nodes = append(f.mu.nodes, n)
	return n
}

// start registers the node and starts its programs. It returns when all have started, or the
// run ends.
func (n *node) start() {
	steps := []func(context.Context) bool{n.register, n.registerCSI, n.ensureLease}
	for _, step := range steps {
		if !n.insist(step) {
			return
		}
	}
	n.schedule("lease", n.random.choose(renewEvery), n.renewPeriodically)
	n.kubelet.start(n)
	if !n.insist(n.reportStatus) {
		return
	}
	n.mu.Lock()
	n.mu.ready = true
	n.mu.Unlock()
	n.fleet.ready.Add(1)
	n.schedule("status", n.random.choose(firstReport), n.reportPeriodically)
	for _, agent := range n.agents {
		agent.start(nil)
	}
	n.makePods(n.fleet.ctx)
}

// insist repeats a step until it succeeds. It returns false if the run ends before.
func (n *node) insist(step func(context.Context) bool) bool {
	for failures := 0; !step(n.fleet.ctx); failures++ {
		select {
		case <-time.After(n.retryPause(failures)):
		case <-n.fleet.ctx.Done():
			return false
		}
	}
	return true
}

// schedule runs a function in a goroutine of its own after a time, unless the node stops
// before. name tells timers apart: a later timer of a name replaces an earlier timer.
func (n *node) schedule(name string, pause time.Duration, do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.scheduleLocked(name, pause, do)
}

// scheduleLocked is schedule for a caller that holds the node's lock.
func (n *node) scheduleLocked(name string, pause time.Duration, do func()) {
	if n.mu.stopped {
		return
	}
	if before := n.mu.timers[name]; before != nil {
		before.Stop()
	}
	var timer *time.Timer
	timer = time.AfterFunc(pause, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.mu.stopped || n.mu.timers[name] != timer {
			return
		}
		delete(n.mu.timers, name)
		n.work.Go(do)
	})
	n.mu.timers[name] = timer
}

// stop ends the node's timers and the watches of its pods' objects, and returns when its
// goroutines have ended.
func (n *node) stop() {
	n.mu.Lock()
	n.mu.stopped = true
	for _, timer := range n.mu.timers {
		timer.Stop()
	}
	objects := n.mu.objects
	n.mu.objects = map[objectKey]*objectWatch{}
	n.mu.Unlock()
	for _, watch := range objects {
		watch.reflector.stop()
	}
	n.work.Wait()
}

// errForeignNode ends a run that meets a foreign node.
var errForeignNode = errors.New("belongs to somebody else")

// register creates the Node, or finds the Node of an earlier run. A Node without the run's
// label may be a real Node: register then ends the run instead of taking the Node over, unless
// Config.ExistingNode is set.
func (n *node) register(ctx context.Context) bool {
	body, err := encodeProtobuf("v1", "Node", n.object())
	if err != nil {
		n.fleet.writes.register.recordFailure(err.Error())
		return false
	}
	answer, err := n.kubelet.call(ctx, n.fleet.writes.register,
		&watchclient.Request{Method: "POST", URI: "/api/v1/nodes", Accept: acceptProtobuf, Type: typeProtobuf, Body: body})
	if err != nil || !answer.OK() && answer.Status != 409 {
		return false
	}
	exists := !answer.OK()
	if exists {
		answer, err = n.kubelet.call(ctx, n.fleet.writes.getNode,
			&watchclient.Request{Method: "GET", URI: "/api/v1/nodes/" + n.name, Accept: acceptProtobuf})
		if err != nil || !answer.OK() {
			return false
		}
	}
	var made corev1.Node
	if err := made.Unmarshal(watchevent.Unwrap(answer.Body)); err != nil {
		n.fleet.writes.register.recordFailure("a node that cannot be read")
		return false
	}
	if name := n.fleet.cfg.Name; exists && n.fleet.cfg.ExistingNode == nil && made.Labels[Label] != name {
		n.fleet.cancel(fmt.Errorf("node %s %w, as it has no label %s=%s: choose another --name, and remove what this run "+
			"has made with --delete --name=%s",
			n.name, errForeignNode, Label, name, name))
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.uid = made.UID
	return true
}

// reportPeriodically reports the status, and schedules its next call.
func (n *node) reportPeriodically() {
	pause := n.random.choose(retryEvery)
	if n.reportStatus(n.fleet.ctx) {
		pause = reportEvery.Min
	}
	n.schedule("status", pause, n.reportPeriodically)
}

// reportStatus patches conditions and their heartbeats, as the kubelet does.
func (n *node) reportStatus(ctx context.Context) bool {
	conditions := nodeConditions(time.Now(), true)
	patch := map[string]any{"status": map[string]any{"conditions": conditions}}
	body, err := json.Marshal(patch)
	if err != nil {
		n.fleet.writes.nodeStatus.recordFailure(err.Error())
		return false
	}
	answer, err := n.kubelet.call(ctx, n.fleet.writes.nodeStatus, &watchclient.Request{
		Method: "PATCH", URI: fmt.Sprintf("/api/v1/nodes/%s/status", n.name), Accept: acceptProtobuf, Type: typeStrategicPatch, Body: body,
	})
	// If somebody has deleted the Node, a kubelet registers again only after a restart.
	if err == nil && answer.Status == 404 {
		return true
	}
	return err == nil && answer.OK()
}
