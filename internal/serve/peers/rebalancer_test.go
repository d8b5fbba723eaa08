package peers

import (
	"math/rand/v2"
	"testing"
)

// TestWatchesSpread restarts one of three servers. A balancer brings each watch that is sent
// away to any of them. All must soon be near their share, and then nothing moves.
func TestWatchesSpread(t *testing.T) {
	t.Parallel()
	for _, watches := range [][]int{{1000, 1000, 0}, {2000, 0, 0}, {300, 290, 10}, {20_000, 19_000, 0}} {
		source := rand.New(rand.NewPCG(1, 2))
		servers := make([]Rebalancer, len(watches))
		total, rounds := 0, 0
		for i, n := range watches {
			servers[i].Above = 10
			total += n
		}
		for ; rounds < 30; rounds++ {
			members := make([]Member, len(watches))
			for i, n := range watches {
				members[i] = Member{Ready: true, Watches: n}
			}
			moved := 0
			for i := range servers {
				others := append(append([]Member{}, members[:i]...), members[i+1:]...)
				excess := servers[i].Excess(members[i], others)
				moved += excess
				watches[i] -= excess
				for range excess {
					watches[source.IntN(len(watches))]++
				}
			}
			if moved == 0 && rounds > 0 {
				break
			}
		}
		for _, n := range watches {
			if share := total / len(watches); n > share+max(share/5, 2*minExcess) {
				t.Errorf("after %d rounds: %v", rounds, watches)
			}
		}
		if rounds == 30 {
			t.Errorf("watches still move: %v", watches)
		}
	}
}

// TestWithoutBalancer makes all watches come back. Rounds must become rare.
func TestWithoutBalancer(t *testing.T) {
	t.Parallel()
	r := Rebalancer{Above: 10}
	self, others := Member{Ready: true, Watches: 1000}, []Member{{Ready: true}, {Ready: true}}
	sending := 0
	for range 360 {
		if r.Excess(self, others) > 0 {
			sending++
		}
	}
	if sending == 0 || sending > 15 {
		t.Errorf("%d of 360 rounds sent watches away", sending)
	}
}

// TestExcessThatComesAndGoes has a forged Lease in every other round, or many of them in each.
// Pauses must hold, and the server must not send more watches than it had in a window. Half of
// them come back.
func TestExcessThatComesAndGoes(t *testing.T) {
	t.Parallel()
	r := Rebalancer{Above: 10}
	sending := 0
	for round := range 360 {
		var others []Member
		if round%2 == 0 {
			others = []Member{{Ready: true}}
		}
		if r.Excess(Member{Watches: 1000}, others) > 0 {
			sending++
		}
	}
	if sending == 0 || sending > 15 {
		t.Errorf("%d of 360 rounds sent watches away", sending)
	}
	r = Rebalancer{Above: 10, Window: 50}
	watches, sent := 1000, 0
	for range 50 {
		n := r.Excess(Member{Watches: watches}, make99())
		watches, sent = watches-n/2, sent+n
	}
	if sent != 1000 {
		t.Errorf("%d watches were sent, want 1,000", sent)
	}
}

func make99() []Member {
	all := make([]Member, 99)
	for i := range all {
		all[i].Ready = true
	}
	return all
}

// TestNothingIsSent has nowhere to send watches to, or no reason.
func TestNothingIsSent(t *testing.T) {
	t.Parallel()
	full := Member{Ready: true, Watches: 1000}
	for name, round := range map[string]struct {
		above  int
		others []Member
	}{
		"alone":              {10, nil},
		"others not ready":   {10, []Member{{Watches: 3}, {}}},
		"switched off":       {0, []Member{{Ready: true}}},
		"as many as another": {10, []Member{{Ready: true, Watches: 990}}},
		"few above":          {1, []Member{{Ready: true, Watches: 980}}},
	} {
		r := Rebalancer{Above: round.above}
		if n := r.Excess(full, round.others); n != 0 {
			t.Errorf("%s: sends %d", name, n)
		}
	}
}
