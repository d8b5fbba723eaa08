package injection

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// kind is a kind of fault.
type kind struct {
	name string
	// weight is how often it is drawn, among the sum of all weights.
	weight int
	// shortest and longest bound its length. Both are 0 if it is over at once.
	shortest, longest time.Duration
	// on are the processes that it may happen to.
	on func(*cast) []string
	// links says that links of the process are concerned, and not the process.
	links bool
	begin func(*injector, *fault) (end func(), err error)
}

// cast are the names of all processes.
type cast struct{ members, servers, replicas []string }

func (c *cast) all() []string { return slices.Concat(c.members, c.servers, c.replicas) }

// fault is one fault of a schedule.
type fault struct {
	*kind
	at, length time.Duration
	target     string
	// choice is a random number, by which the fault chooses among ways to happen.
	choice int
}

func (f *fault) String() string {
	if f.length == 0 {
		return fmt.Sprintf("%s %s", f.name, f.target)
	}
	return fmt.Sprintf("%s %s for %v", f.name, f.target, f.length)
}

// kinds are all kinds of faults. Lengths are around the times that matter: an election takes
// a second, a read that cannot be proven 0.3 s at a replica and 10 s at a server, a request of
// the verifier 5 s.
func kinds() []*kind {
	const s, ms = time.Second, time.Millisecond
	members := func(c *cast) []string { return c.members }
	return []*kind{
		{"kill", 3, 100 * ms, 3 * s, members, false, (*injector).kill},
		{"kill", 2, 100 * ms, 2 * s, func(c *cast) []string { return c.servers }, false, (*injector).kill},
		{"kill", 2, 100 * ms, 2 * s, func(c *cast) []string { return c.replicas }, false, (*injector).kill},
		{"lose", 1, 5 * s, 8 * s, members, false, (*injector).kill},
		{"replace", 1, 1 * s, 4 * s, members, false, (*injector).replace},
		{"pause", 6, 200 * ms, 6 * s, (*cast).all, false, (*injector).pause},
		{"slow", 2, 2 * s, 5 * s, members, false, (*injector).slow},
		{"compact", 3, 0, 0, members, true, (*injector).compact},
		{"fall behind", 2, 1 * s, 3 * s, func(c *cast) []string { return c.servers }, true, (*injector).fallBehind},
		{"defragment", 1, 0, 0, members, true, (*injector).defragment},
		{"move leader", 3, 0, 0, members, true, (*injector).moveLeader},
		{"silence", 4, 500 * ms, 6 * s, (*cast).all, true, (*injector).silence},
		{"cut", 3, 100 * ms, 4 * s, (*cast).all, true, (*injector).cut},
		{"hold one direction", 3, 500 * ms, 5 * s, (*cast).all, true, (*injector).holdOne},
		{"delay", 3, 2 * s, 6 * s, (*cast).all, true, (*injector).delay},
	}
}

const (
	// calm is the time before the first fault.
	calm = time.Second
	// recovery is the least time between the last fault and the end of the clients.
	recovery = 4 * time.Second
	// longestGap is the longest time between the beginnings of two faults.
	longestGap = 1800 * time.Millisecond
)

// schedule draws the faults of a run. A seed and the names of all processes decide about it
// alone. Faults overlap, but for those of one process, or of the links of one.
func schedule(seed uint64, c *cast, all []*kind, duration time.Duration) (faults []*fault) {
	random := rand.New(rand.NewPCG(seed, 1))
	busy := map[string]time.Duration{}
	end := duration - recovery
	for at := calm; at < end; at += time.Duration(random.Int64N(int64(longestGap))) {
		f := draw(random, c, all)
		f.at = at.Round(time.Millisecond)
		f.length = min(f.length, end-f.at)
		key := fmt.Sprint(f.target, f.links)
		if f.length < f.shortest || f.at < busy[key] {
			continue
		}
		busy[key] = f.at + f.length
		faults = append(faults, f)
	}
	return faults
}

// draw draws a fault without a time.
func draw(random *rand.Rand, c *cast, all []*kind) *fault {
	sum := 0
	for _, k := range all {
		sum += k.weight
	}
	n, i := random.IntN(sum), 0
	for ; n >= all[i].weight; i++ {
		n -= all[i].weight
	}
	k := all[i]
	targets := k.on(c)
	f := &fault{kind: k, target: targets[random.IntN(len(targets))], choice: random.IntN(1 << 20)}
	if k.longest > 0 {
		f.length = (k.shortest + time.Duration(random.Int64N(int64(k.longest-k.shortest)))).Round(time.Millisecond)
	}
	return f
}

// step is the beginning or the end of a fault.
type step struct {
	at time.Duration
	*fault
	ends bool
}

// steps are all steps of a schedule, in order.
func steps(faults []*fault) (all []step) {
	for _, f := range faults {
		all = append(all, step{f.at, f, false})
		if f.length > 0 {
			all = append(all, step{f.at + f.length, f, true})
		}
	}
	slices.SortStableFunc(all, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	return all
}
