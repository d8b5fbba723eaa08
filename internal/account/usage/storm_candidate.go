package usage

import (
	"time"

	"github.com/millrace/millrace/internal/account/distinct"
	"github.com/millrace/millrace/internal/account/serverreport"
)

// clientGroup is the clients of one program. The detector's lock guards it.
type clientGroup struct {
	hosts, connections distinct.SlidingCounter
	lastSeen           time.Time
	// hostCount and connectionCount are the counts at countedAt.
	hostCount, connectionCount int
	countedAt                  time.Time
}

// count counts the group's hosts and connections. Counts of a large group may be as old as
// recountAfter.
func (g *clientGroup) count(now time.Time) (hosts, connections int) {
	if now.Sub(g.countedAt) >= recountAfter || !g.hosts.Costly() && !g.connections.Costly() {
		g.countedAt, g.hostCount, g.connectionCount = now, g.hosts.Count(now), g.connections.Count(now)
	}
	return g.hostCount, g.connectionCount
}

type candidateKey struct{ program, resource string }

// candidateStorm is the clients of a program that list all of one resource. It has a
// storm while there are many. The detector's lock guards it.
type candidateStorm struct {
	hosts, connections  distinct.SlidingCounter
	lastSeen, countedAt time.Time
	// baseline is a moving average of the number of clients in a window.
	baseline float64
	// baselineStep is the step up to which baseline is computed.
	baselineStep int64

	// byConnection reports whether connections are counted in place of hosts. It does not
	// change during a storm.
	byConnection bool

	// storm is nil while there is none. The following fields belong to the storm.
	storm *serverreport.Storm
	// listed are the clients of the storm so far.
	listed distinct.Counter
	// pacer is nil if the storm is not paced.
	pacer *pacer
}

const (
	// A storm has at least fewClients if they are a third of the group, or at least
	// manyClients if they are a twentieth of it.
	fewClients, largeShare  = 5, 3
	manyClients, smallShare = 20, 20
	// baselineWeight is the weight of one step in the baseline. After four minutes a new
	// level counts for half.
	baselineWeight = 0.03
)

// isStormSize reports whether that many clients, out of a group, are a storm. See the diagram
// of stormDetector.
func isStormSize(clients, group int) bool {
	return clients >= fewClients && largeShare*clients >= group || clients >= manyClients && smallShare*clients >= group
}

// maybeProxied reports whether hosts are so few that they may be proxies of many clients.
func maybeProxied(hosts int) bool { return hosts <= 2 }

// tooFew reports whether there are certainly too few clients for a storm. It holds only while
// neither counter is Costly. It counts nothing, so it is cheap.
func (c *candidateStorm) tooFew() bool {
	return c.hosts.ExactBound() < fewClients && c.connections.ExactBound() < manyClients
}

// stale reports whether the candidate is not worth keeping. It was quiet for groupWindow, or
// for stormWindow if its baseline is no more than one request leaves. Most candidates have one
// request only.
func (c *candidateStorm) stale(now time.Time) bool {
	quiet := now.Sub(c.lastSeen)
	return quiet > groupWindow || quiet > stormWindow && c.baseline <= stormSteps*baselineWeight
}

// updateBaseline adds the steps since the last update to the baseline. clients is the
// present count.
func (c *candidateStorm) updateBaseline(now time.Time, clients int) {
	step := now.UnixNano() / int64(stormWindow/stormSteps)
	if c.baselineStep == 0 {
		c.baselineStep = step
	}
	if c.pacer != nil {
		// The pacer decides how long a paced storm lasts, so it must not become usual.
		c.baselineStep = step
	}
	for ; c.baselineStep < step; c.baselineStep++ {
		if step-c.baselineStep > int64(groupWindow/(stormWindow/stormSteps)) {
			c.baseline, c.baselineStep = 0, step-1 // what was before the gap is not usual any more
		}
		c.baseline += baselineWeight * (float64(clients) - c.baseline)
	}
}
