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

// agentPlan is an agent of a profile, with the counters of all its instances.
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

// instance is one program: an agent on one node, or one in the cluster.
type instance struct {
	fleet    *fleet
	agent    *agentPlan
	node     string // empty: it belongs to no node
	identity watchclient.Identity
	random   *random
	// shared says that other programs use its connections too.
	shared bool
	wire   atomic.Pointer[watchclient.Client]

	mu struct {
		sync.Mutex
		reflectors []*reflector
		restart    *time.Timer
		stopped    bool
	}
	restarts sync.WaitGroup // in progress; none begins once stopped is set
}

// newInstance makes an instance that does nothing yet. number tells it from all others.
func (f *fleet) newInstance(plan *agentPlan, node string, number uint64) *instance {
	i := &instance{fleet: f, agent: plan, node: node, random: newRandom(f.cfg.Seed, number)}
	i.identity.UserAgent = i.expand(plan.UserAgent)
	if f.cfg.Impersonate && plan.User != "" {
		i.identity.User, i.identity.Groups = i.expand(plan.User), plan.Groups
		if strings.HasPrefix(plan.User, "system:serviceaccount:") {
			if f.cfg.ServiceAccountRights {
				i.identity.Groups = nil // the server adds those of service accounts
			}
			i.identity.Pod, i.identity.Node = fmt.Sprintf("%s-%s-%d", plan.Name, node, number), node
		}
	}
	return i
}

// expand replaces $node.
func (i *instance) expand(text string) string { return strings.ReplaceAll(text, "$node", i.node) }

func (i *instance) client() *watchclient.Client { return i.wire.Load() }

// start begins all reads of the agent. sink gets the pods of a kubelet, and is nil in
// others.
func (i *instance) start(sink podSink) {
	var started []*reflector
	for _, plan := range i.agent.reads {
		if plan.OfPods {
			continue // the kubelet begins these
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
		i.mu.restart = time.AfterFunc(i.random.in(i.agent.Restart), func() { i.restart(sink) })
	}
	i.mu.Unlock()
	for _, r := range started {
		r.begin()
	}
}

// restart does what a new process does: it knows nothing, and connects anew.
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
		i.fleet.dropClient(i.wire.Swap(i.fleet.newClient()))
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

// call sends a request that is no read of a profile, and counts it.
func (i *instance) call(ctx context.Context, c *counter, r *watchclient.Request) (*watchclient.Answer, error) {
	r.Identity = &i.identity
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)
	defer cancel()
	answer, err := i.client().Call(ctx, r)
	switch {
	case err != nil && i.fleet.ctx.Err() != nil:
	case err != nil:
		c.failed(err.Error())
	case answer.OK(), expected(r, answer.Status):
		c.bytes.Add(int64(len(answer.Body)))
		c.done(time.Since(began))
	default:
		c.failed(fmt.Sprintf("%d %s", answer.Status, answerMessage(answer)))
	}
	return answer, err
}

const callTimeout = 30 * time.Second

var errCallTimeout = fmt.Errorf("no answer within %s", callTimeout)

// expected reports whether a status is no error: an object that exists already, or one that
// is not there.
func expected(r *watchclient.Request, status int) bool {
	return r.Method == "POST" && status == 409 || r.Method != "POST" && status == 404
}

// answerMessage returns what an answer says about an error.
func answerMessage(a *watchclient.Answer) string {
	form := watchevent.JSON
	if watchevent.Unwrap(a.Body) != nil {
		form = watchevent.Protobuf
	}
	return statusMessage(a.Body, form)
}
