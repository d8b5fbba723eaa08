package peers

import "cmp"

// Rebalancer decides how many watches a server sends elsewhere. A server that has just started
// has no watches, because clients keep a connection to another server for as long as it holds.
//
// A server with more than its share sends some watches elsewhere in each round: it asks their
// clients to connect again. A balancer in front brings the clients to other servers, or back
// here. So each round sends half of the excess, and ends well before the shares are equal.
// Where no balancer brings clients elsewhere, rounds change nothing, and become rare.
//
// The zero value sends nothing. One goroutine uses a Rebalancer.
type Rebalancer struct {
	// Above is how many percent above its share a server may be. 0 sends no watches.
	Above int

	// Window is the number of rounds in which no more watches are sent than the server has had
	// in one of them. Zero means 60, which is 10 minutes with the default interval. Leases may
	// be forged, and must not move everything again and again. A server with all watches of
	// many needs nearly that much, since a balancer brings some back.
	Window int

	// rounds are the last rounds, Window at most.
	rounds []rebalanceRound
	// lastSent is how many watches the last round sent. It is 0 if that round is judged.
	lastSent int
	// lastWatches is how many watches the server had before the last round that sent any.
	lastWatches int
	// pause is how many rounds are skipped after one that changed nothing. skips is how many
	// of them are still to come.
	pause, skips int
}

// rebalanceRound has how many watches a server had in a round, and how many it sent away.
type rebalanceRound struct{ watches, sent int }

const (
	// minExcess is the number of watches above the share that are not worth a connection.
	minExcess = 10
	// maxSent bounds the watches that one round sends: each of them costs its new server a
	// look into its history.
	maxSent = 2000
	// maxPause bounds the rounds that are skipped.
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
	if r.skips > 0 {
		r.skips--
		return 0
	}
	share, ok := share(self, others)
	if r.Above <= 0 || !ok || self.Watches <= share+max(minExcess, share*r.Above/100) {
		return 0
	}
	return min((self.Watches-share+1)/2, maxSent, r.allowed(self.Watches))
}

// judge makes pauses longer if the last round has changed nothing, and else ends them. It is
// called in each round, also without an excess: a server that comes and goes ends no pause.
func (r *Rebalancer) judge(watches int) {
	switch {
	case r.lastSent == 0:
		return
	case watches > r.lastWatches-max(1, r.lastSent/4):
		r.pause = min(2*r.pause+1, maxPause)
		r.skips = r.pause
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
