package right

import (
	"container/list"
	"hash/maphash"
	"sync"
	"time"
)

// turnsConfig bounds questions. All fields are needed.
type turnsConfig struct {
	// inFlight is how many questions are with the upstream at most. share is how many
	// questions of one flow are with the upstream at most.
	inFlight, share int
	// waiting is how many questions wait at most, and wait for how long.
	waiting int
	wait    time.Duration
}

// turns schedules questions to the upstream. It bounds how many are in flight, and serves the
// flows in turn. So a caller that asks much delays each other caller by one answer at most.
//
// A question belongs to the flow of a user or an address. When all places to wait are taken,
// the flow in which most questions wait gives up its newest one. So the places are shared as
// the turns are. One flow may have all places while no other flow needs one: a fleet whose
// agents start at the same time is often one user.
//
// Names are hashed to a fixed number of flows. So many names cost no memory. The price is that
// two names may share a flow.
type turns struct {
	cfg  turnsConfig
	seed maphash.Seed
	mu   struct {
		sync.Mutex
		inFlight, waiting int
		flows             [flowCount]flow
		// next is the flow that is looked at first when a turn is free.
		next int
	}
}

// flowCount is the number of flows.
const flowCount = 256

type flow struct {
	inFlight int
	// waiting has *turn, the oldest first.
	waiting list.List
}

// turn is the turn of one question. It leaves waiting once:
//
//	begin ─┬──────────► in flight ─ end
//	       ├─► waiting ──┘
//	       │      └─────┐
//	       └────────────┴► not asked
type turn struct {
	flow int
	// decided receives one value when the turn no longer waits: "" if the question may be asked,
	// or why it may not. A turn that gives up receives none.
	decided chan Omission
	// place is the turn's element of flow.waiting. It is nil for a turn that never waited.
	place *list.Element
}

func newTurns(cfg turnsConfig) *turns { return &turns{cfg: cfg, seed: maphash.MakeSeed()} }

// begin waits for the turn of a question, in the flow of a name. It returns why there is no
// turn, or "" and a function that must be called when the question was answered.
func (t *turns) begin(name string) (end func(), why Omission) {
	p := t.enter(name)
	timer := time.NewTimer(t.cfg.wait)
	defer timer.Stop()
	select {
	case why = <-p.decided:
	case <-timer.C:
		why = t.giveUp(p)
	}
	if why != "" {
		return nil, why
	}
	return func() { t.leave(p.flow) }, ""
}

// enter gives a question a turn, a place to wait, or neither.
func (t *turns) enter(name string) *turn {
	p := &turn{flow: int(maphash.String(t.seed, name) % flowCount), decided: make(chan Omission, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	f := &t.mu.flows[p.flow]
	// Nobody waits for a turn that is free: leave has given it away.
	if t.mu.inFlight < t.cfg.inFlight && f.inFlight < t.cfg.share {
		t.startLocked(p)
		return p
	}
	if t.mu.waiting >= t.cfg.waiting && !t.dropLocked(f.waiting.Len()+1) {
		p.decided <- noPlace
		return p
	}
	p.place = f.waiting.PushBack(p)
	t.mu.waiting++
	return p
}

func (t *turns) startLocked(p *turn) {
	t.mu.inFlight++
	t.mu.flows[p.flow].inFlight++
	p.decided <- ""
}

// dropLocked frees the newest place of the flow in which most questions wait. It returns false
// if no flow has more than least questions that wait.
func (t *turns) dropLocked(least int) bool {
	var longest *flow
	for i := range t.mu.flows {
		if f := &t.mu.flows[i]; f.waiting.Len() > least {
			longest, least = f, f.waiting.Len()
		}
	}
	if longest == nil {
		return false
	}
	dropped := longest.waiting.Remove(longest.waiting.Back()).(*turn)
	t.mu.waiting--
	dropped.decided <- noPlace
	return true
}

// giveUp ends the waiting of a turn, which may have been decided in the meantime.
func (t *turns) giveUp(p *turn) Omission {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case why := <-p.decided:
		return why
	default:
	}
	t.mu.flows[p.flow].waiting.Remove(p.place)
	t.mu.waiting--
	return tooLate
}

// leave ends a turn, and gives the next turn to the next flow in which a question may go.
func (t *turns) leave(flow int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.inFlight--
	t.mu.flows[flow].inFlight--
	for range flowCount {
		f := &t.mu.flows[t.mu.next]
		t.mu.next = (t.mu.next + 1) % flowCount
		if oldest := f.waiting.Front(); oldest != nil && f.inFlight < t.cfg.share {
			f.waiting.Remove(oldest)
			t.mu.waiting--
			t.startLocked(oldest.Value.(*turn))
			return
		}
	}
}

// load returns how many questions are in flight, and how many wait.
func (t *turns) load() (inFlight, waiting int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.inFlight, t.mu.waiting
}
