package usage

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/report"
)

// storms notices clients of one kind that list all of a resource anew within a
// short time, as they do when they are restarted together, and paces them.
//
// A client is a user at an address, without its port: connections come and go. Where
// all clients come from one or two addresses, behind a proxy, connections are
// counted. A kind is the name of a program.
//
// A storm has begun when within stormWindow the clients are a third of the fleet,
// and 5 at least, or a twentieth, and 20 at least; connections have to be a third
// and 20 at least. Clients that do so all the time poll: they are no storm. It is
// over when half of that is not reached any more and nobody waits for a time to list.
type storms struct {
	cfg  *Config
	seed maphash.Seed

	mu struct {
		sync.Mutex
		// fleets are by kind.
		fleets     map[string]*fleet
		gatherings map[gatheringKey]*gathering
		past       []report.Storm
		// held is how many clients wait for their time, over all meters.
		held  int
		paced uint64
	}
}

const (
	// stormWindow is counted in stormSteps.
	stormWindow = 30 * time.Second
	stormSteps  = 3
	// fleetWindow and connectionWindow are how long a client belongs to a fleet, in two
	// steps each.
	fleetWindow      = time.Hour
	connectionWindow = 10 * time.Minute
	// pastStorms are told for stormKept.
	pastStorms = 50
	stormKept  = 10 * time.Minute

	maxFleets     = 512
	maxGatherings = 1_024
	// recount is how long a count of many clients is good.
	recount = 200 * time.Millisecond
	// usual is the weight of a step in what is usual: after four minutes, half of what
	// goes on is.
	usual = 0.03
)

// fleet is the clients of a kind.
type fleet struct {
	hosts, connections lately
	seen, counted      time.Time
	// size and lines are how many hosts and connections there were when they were
	// counted.
	size, lines int
}

// count counts the fleet, a large one now and then.
func (f *fleet) count(now time.Time) (hosts, connections int) {
	if now.Sub(f.counted) >= recount || !f.hosts.large() && !f.connections.large() {
		f.counted, f.size, f.lines = now, f.hosts.count(now), f.connections.count(now)
	}
	return f.size, f.lines
}

type gatheringKey struct{ kind, resource string }

// gathering is the clients of a kind that list a resource anew.
type gathering struct {
	hosts, connections lately
	seen, counted      time.Time
	// usual is how many clients there mostly are in a window, and step when it was
	// brought up to date.
	usual float64
	step  int64
	// storm is nil when there is none. The rest is the storm's.
	storm *report.Storm
	// byConnection says that connections are counted.
	byConnection bool
	listed       crowd
	meter        *meter
}

// Relist is a LIST or WATCH that begins.
type Relist struct {
	Client  report.Client
	Address string
	// Resource is named as in a Shape.
	Resource string
	// Full says that it asks for all of a resource, over all namespaces, and not for a
	// later page of it.
	Full bool
	// Exempt clients are never held back.
	Exempt bool
}

func (s *storms) init(cfg *Config) {
	s.cfg, s.seed = cfg, maphash.MakeSeed()
	s.mu.fleets, s.mu.gatherings = map[string]*fleet{}, map[gatheringKey]*gathering{}
}

// Relist notes a LIST or WATCH that begins. It returns 0, or in a storm that is
// paced, after how many whole seconds the client is to come back.
func (l *Accounts) Relist(r *Relist) time.Duration { return l.storms.relist(r, l.cfg.Clock.Now()) }

// AddRelistBytes adds to the storm, if there is one, what a relist was sent beyond what
// Observe is told: the initial events of a watch.
func (l *Accounts) AddRelistBytes(kind, resource string, bytes uint64) {
	l.storms.sent(kind, resource, bytes)
}

// Run ends storms in time until the context ends.
func (l *Accounts) Run(ctx context.Context) {
	ticker := l.cfg.Clock.NewTicker(stormWindow / stormSteps)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
			l.storms.counts(l.cfg.Clock.Now())
		case <-ctx.Done():
			return
		}
	}
}

func (s *storms) relist(r *Relist, now time.Time) time.Duration {
	byHost := maphash.Comparable(s.seed, [2]string{r.Client.User, host(r.Address)})
	byConnection := maphash.Comparable(s.seed, [2]string{r.Client.User, r.Address})
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.fleetLocked(r.Client.UserAgent)
	f.seen = now
	f.hosts.add(now, byHost)
	f.connections.add(now, byConnection)
	if !r.Full {
		return 0
	}
	key := gatheringKey{r.Client.UserAgent, r.Resource}
	g := s.gatheringLocked(key)
	g.seen = now
	g.hosts.add(now, byHost)
	g.connections.add(now, byConnection)
	s.judgeLocked(key, g, now)
	if g.storm == nil {
		return 0
	}
	g.storm.Requests++
	client := byHost
	if g.byConnection {
		client = byConnection
	}
	g.listed.add(client)
	if g.meter == nil || r.Exempt {
		return 0
	}
	before := len(g.meter.held)
	wait := g.meter.ask(now, client, maxHeld-s.mu.held)
	s.mu.held += len(g.meter.held) - before
	if wait > 0 {
		s.mu.paced++
	}
	return wait
}

// judgeLocked begins or ends the storm of a gathering.
func (s *storms) judgeLocked(key gatheringKey, g *gathering, now time.Time) {
	if now.Sub(g.counted) < recount && (g.storm != nil || g.hosts.large() || g.connections.large() || g.few()) {
		return
	}
	g.counted = now
	hosts, connections := g.hosts.count(now), g.connections.count(now)
	fleet, lines := s.fleetLocked(key.kind).count(now)
	fleet, lines = max(fleet, hosts), max(lines, connections)
	g.learn(now, max(hosts, connections))
	unusual := float64(max(hosts, connections)) >= 2*g.usual
	if g.storm == nil {
		g.byConnection = !crowded(hosts, fleet) && proxied(hosts) && connections >= manyClients
	}
	n := hosts
	if g.byConnection {
		n, fleet = connections, lines
	}
	switch {
	case g.storm == nil && unusual && crowded(n, fleet) && (!g.byConnection || 3*n >= fleet):
		s.beginLocked(key, g, now)
		s.tell("Storm of relists began", g.storm, n, fleet)
	case g.storm == nil:
		return
	case !s.waitingLocked(g, now) && !(unusual && crowded(2*n, fleet)):
		s.endLocked(g)
		return
	}
	g.storm.Clients = g.listed.count()
	g.storm.Fleet = max(g.storm.Fleet, fleet, g.storm.Clients)
	if g.meter != nil {
		g.meter.setRate(now, float64(g.storm.Fleet)*s.cfg.Pace/100)
	}
}

const (
	fewClients  = 5
	manyClients = 20
)

// crowded reports whether so many clients of a fleet are a storm.
func crowded(clients, fleet int) bool {
	return clients >= fewClients && 3*clients >= fleet || clients >= manyClients && 20*clients >= fleet
}

// proxied reports whether so few addresses may hide many clients.
func proxied(hosts int) bool { return hosts <= 2 }

// few reports whether there are too few clients for a storm, at first sight.
func (g *gathering) few() bool {
	return g.hosts.most() < fewClients && g.connections.most() < manyClients
}

// over reports whether nobody lists any more, and what is usual is no more than what one
// client makes of it that listed for a window: most gatherings are of one request.
func (g *gathering) over(now time.Time) bool {
	quiet := now.Sub(g.seen)
	return quiet > fleetWindow || quiet > stormWindow && g.usual <= stormSteps*usual
}

// learn notes what is usual, at the end of a step.
func (g *gathering) learn(now time.Time, n int) {
	step := now.UnixNano() / int64(stormWindow/stormSteps)
	if g.step == 0 {
		g.step = step
	}
	if g.meter != nil {
		g.step = step // a storm that is paced lasts as long as it is told to
	}
	for ; g.step < step; g.step++ {
		if step-g.step > int64(fleetWindow/(stormWindow/stormSteps)) {
			g.usual, g.step = 0, step-1
		}
		g.usual += usual * (float64(n) - g.usual)
	}
}
