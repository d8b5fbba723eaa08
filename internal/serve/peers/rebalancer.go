package peers

import "cmp"

// Rebalancer decides how many watches a server sends elsewhere. After a rolling restart all
// watches are on the servers that stayed: clients keep a connection for as long as it holds.
//
// A server with more than its share closes some connections in each round. A balancer in
// front brings their clients to other servers, or back here. So each round sends half of
// the excess, and ends well before the shares are equal. Where no balancer brings clients
// elsewhere, rounds change nothing, and become rare.
//
// The zero value sends nothing. One goroutine uses a Rebalancer.
type Rebalancer struct {
	// Above is how many percent above its share a server may be. 0 never sends any.
	Above int

	// Window is the number of rounds in which no more watches are sent than the server has had
	// in one of them. Zero means 60, which is 10 minutes with the default interval. Leases may
	// be forged, and must not move everything again and again. A server with all watches of
	// many needs nearly that much, since a balancer brings some back.
	Window int

	// rounds are the last rounds, Window at most.
	rounds []rebalanceRound
	// lastSent is how many watches the last round sent.
	lastSent int
	// lastWatches is how many watches the server had before the last round.
	lastWatches int
	// pause is how many rounds are left out after one that changed nothing, and left how
	// many of them are still to come.
	pause, left int
}

// rebalanceRound has how many watches a server had in a round, and how many it sent away.
type rebalanceRound struct{ watches, sent int }

const (
	// minExcess is the number of watches above the share that are not worth a connection.
	minExcess = 10
	// maxSent bounds the watches that one round sends: each of them costs its new server a
	// look into its history.
	maxSent = 2000
	// maxPause bounds the rounds that are left out.
	maxPause = 60
	// defaultWindow is the default of Rebalancer.Window.
	defaultWindow = 60
)

// Excess returns how many watches to send elsewhere in this round. self is this server.
func (r *Rebalancer) Excess(self Member, others []Member) int {
	n := r.computeExcess(self, others)
	r.rounds = append(r.rounds, rebalanceRound{self.Watches, n})
	r.rounds = r.rounds[max(0, len(r.rounds)-cmp.Or(r.Window, defaultWindow)):]
	if n > 0 {
		r.lastWatches, r.lastSent = self.Watches, n
	}
	return n
}

func (r *Rebalancer) computeExcess(self Member, others []Member) int {
	r.judge(self.Watches)
	if r.left > 0 {
		r.left--
		return 0
	}
	share, ok := share(self, others)
	if r.Above <= 0 || !ok || self.Watches <= share+max(minExcess, share*r.Above/100) {
		return 0
	}
	return min((self.Watches-share+1)/2, maxSent, r.allowed(self.Watches))
}

// judge makes pauses longer if the last round has changed nothing. It judges also if there is
// no excess any more: a server that comes and goes does not end a pause.
func (r *Rebalancer) judge(watches int) {
	switch {
	case r.lastSent == 0:
		return
	case watches > r.lastWatches-max(1, r.lastSent/4):
		r.pause = min(2*r.pause+1, maxPause)
		r.left = r.pause
	default:
		r.pause = 0
	}
	r.lastSent = 0
}

// allowed returns how many watches may be sent in this round.
func (r *Rebalancer) allowed(watches int) int {
	most, sent := watches, 0
	for _, round := range r.rounds[max(0, len(r.rounds)+1-cmp.Or(r.Window, defaultWindow)):] {
		most, sent = max(most, round.watches), sent+round.sent
	}
	return max(0, most-sent)
}

// share returns the number of watches that each server would have if all had as many. It
// returns false if there is no other server that takes clients.
func share(self Member, others []Member) (watches int, ok bool) {
	total, servers := self.Watches, 1
	for _, m := range others {
		if total += m.Watches; m.Ready {
			servers++
		}
	}
	return (total + servers - 1) / servers, servers > 1
}
