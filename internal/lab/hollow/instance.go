package hollow

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/conn/watchclient"
	"github.com/millrace/millrace/internal/tool/agentprofile"
	"github.com/millrace/millrace/internal/wire/watchevent"
)

// agentPlan is an agent of a profile, with the plans of its reads. All instances share it.
type agentPlan struct {
	*agentprofile.Agent
	reads []*readPlan
}

func newAgentPlan(s *counters, a *agentprofile.Agent) *agentPlan {
	plan := &agentPlan{Agent: a}
	for i := range a.Reads {
		plan.reads = append(plan.reads, newReadPlan(s, a.Name, &a.Reads[i]))
	}
	return plan
}

// instance is one program: an agent on one node, or an agent of the cluster.
type instance struct {
	fleet    *fleet
	agent    *agentPlan
	node     string // empty: it belongs to no node
	identity watchclient.Identity
	random   *random
	shared   bool // other programs use its client, too
	// current is the client. restart replaces it.
	current atomic.Pointer[watchclient.Client]

	mu struct {
		sync.Mutex
		reflectors []*reflector
		restart    *time.Timer
		stopped    bool
	}
	restarts sync.WaitGroup // in progress; none starts once stopped is set
}

// newInstance returns an instance that does nothing yet. number must be different for each
// instance: it seeds the random times.
func (f *fleet) newInstance(plan *agentPlan, node string, number uint64) *instance {
	i := &instance{fleet: f, agent: plan, node: node, random: newRandom(f.cfg.Seed, number)}
	i.identity.UserAgent = i.expand(plan.UserAgent)
	if f.cfg.Impersonate && plan.User != "" {
		i.identity.User = i.expand(plan.User)
		i.identity.Groups = plan.Groups
		if strings.HasPrefix(plan.User, "system:serviceaccount:") {
			if f.cfg.ServiceAccountRights {
				i.identity.Groups = nil // the server adds the groups of service accounts
			}
			i.identity.Pod = fmt.Sprintf("%s-%s-%d", plan.Name, node, number)
			i.identity.Node = node
		}
	}
	return i
}

// expand returns text with the node's name in place of $node.
func (i *instance) expand(text string) string { return strings.ReplaceAll(text, "$node", i.node) }

func (i *instance) client() *watchclient.Client { return i.current.Load() }

// start starts all reads of the agent. sink receives the pods of a kubelet, or of a pod watcher.
// It is nil for other agents.
func (i *instance) start(sink podSink) {
	var started []*reflector
	for _, plan := range i.agent.reads {
		if plan.OfPods {
			continue // the kubelet starts reads of pods' objects
		}
		r := newReflector(i, plan, "", "")
		if plan.OwnPods {
			r.sink = sink
		}
		started = append(started, r)
	}
	i.mu.Lock()
	if i.mu.stopped {
		i.mu.Unlock()
		return
	}
	i.mu.reflectors = started
	if i.agent.Restart.Max > 0 {
		i.mu.restart = time.AfterFunc(i.random.choose(i.agent.Restart), func() { i.restart(sink) })
	}
	i.mu.Unlock()
	for _, r := range started {
		r.begin()
	}
}

// restart does what a new process does: it reads everything again, over a new connection.
func (i *instance) restart(sink podSink) {
	i.mu.Lock()
	if i.mu.stopped {
		i.mu.Unlock()
		return
	}
	i.restarts.Add(1)
	defer i.restarts.Done()
	before := i.mu.reflectors
	i.mu.reflectors = nil
	i.mu.Unlock()
	for _, r := range before {
		r.stop()
	}
	if !i.shared {
		i.fleet.dropClient(i.current.Swap(i.fleet.newClient()))
	}
	i.start(sink)
}

// stop ends all reads for good, and returns when no restart is in progress.
func (i *instance) stop() {
	i.mu.Lock()
	i.mu.stopped = true
	reflectors := i.mu.reflectors
	if i.mu.restart != nil {
		i.mu.restart.Stop()
	}
	i.mu.Unlock()
	for _, r := range reflectors {
		r.stop()
	}
	i.restarts.Wait()
}

// call sends a request that is not a read of a profile, such as a write of a kubelet, and counts it.
// An error means that there is no answer; the caller must check the answer's status.
func (i *instance) call(ctx context.Context, c *counter, r *watchclient.Request) (*watchclient.Answer, error) {
	r.Identity = &i.identity
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)
	defer cancel()
	answer, err := i.client().Call(ctx, r)
	switch {
	case err != nil && i.fleet.ctx.Err() != nil:
	case err != nil:
		c.recordFailure(err.Error())
	case answer.OK(), isExpected(r, answer.Status):
		c.bytes.Add(int64(len(answer.Body)))
		c.recordSuccess(time.Since(began))
	default:
		c.recordFailure(fmt.Sprintf("%d %s", answer.Status, answerMessage(answer)))
	}
	return answer, err
}

const callTimeout = 30 * time.Second

var errCallTimeout = fmt.Errorf("no answer within %s", callTimeout)

// isExpected reports whether a status is not an error for a kubelet: it creates what may exist, and
// reads, changes and deletes what may be gone.
func isExpected(r *watchclient.Request, status int) bool {
	return r.Method == "POST" && status == 409 || r.Method != "POST" && status == 404
}

// answerMessage returns the message of an answer that is an error.
func answerMessage(a *watchclient.Answer) string {
	form := watchevent.JSON
	if watchevent.Unwrap(a.Body) != nil {
		form = watchevent.Protobuf
	}
	return statusMessage(a.Body, form)
}
