package usage

import (
	"context"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/account/distinct"
	"github.com/millrace/millrace/internal/account/serverreport"
)

// stormDetector detects storms of relists, and paces them. In a storm, many clients of one
// program list all of a resource again within a short time, as when they restart together.
//
// It counts clients in two ways. A clientGroup has all clients that run a program, so it
// tells which share of the clients takes part. A candidateStorm has the clients of a
// program that list one resource. At a full Relist the detector compares the two, unless it
// has just done so:
//
//	       at least 1/3 of the group, and 5 clients,
//	       or 1/20 of it, and 20 clients
//	quiet ─────────────────────────────────────────► storm
//	      ◄─────────────────────────────────────────
//	       less than half of that, and no client waits
//
// Clients that always list as often as now are no storm: they poll. So the count must also be at
// least twice the candidate's baseline for a storm to begin, and to go on once no client waits.
//
// A client is a user at a host, since connections come and go. Through a proxy all clients
// have one or two hosts. There the detector counts connections instead, and a storm needs
// both a third of the group and 20 connections.
//
// Clients choose programs' names. So groups and candidates are bounded, and counts are
// estimates (distinct.Counter). A Relist takes about 0.1 µs, under one lock.
type stormDetector struct {
	cfg  *Config
	seed maphash.Seed

	mu struct {
		sync.Mutex
		// groups are by program.
		groups     map[string]*clientGroup
		candidates map[candidateKey]*candidateStorm
		// past has storms that ended, the newest last.
		past []serverreport.Storm
		// tickets is the sum of the pacers' tickets.
		tickets int
		// paced counts the requests since the start whose clients were told to wait.
		paced uint64
	}
}

const (
	// stormWindow is the window of a candidate. It has stormSteps.
	stormWindow = 30 * time.Second
	stormSteps  = 3
	// groupWindow and connectionWindow are the windows of a group's hosts and
	// connections. They have two steps each.
	groupWindow      = time.Hour
	connectionWindow = 10 * time.Minute
	// Reports have the last maxPastStorms that ended within keepPastStorms.
	maxPastStorms  = 50
	keepPastStorms = 10 * time.Minute

	maxGroups     = 512
	maxCandidates = 1_024
	// recountAfter is the age up to which the count of many clients is used again.
	recountAfter = 200 * time.Millisecond
)

// Relist is a LIST or WATCH that begins.
type Relist struct {
	Client  serverreport.Client
	Address string
	// Resource is named as in a Shape.
	Resource string
	// Full reports whether the request reads a resource from the beginning, in all namespaces,
	// and without a selector that requires a value. Later pages of such a list are not full.
	Full bool
	// Exempt clients never wait.
	Exempt bool
}

func (s *stormDetector) init(cfg *Config) {
	s.cfg, s.seed = cfg, maphash.MakeSeed()
	s.mu.groups, s.mu.candidates = map[string]*clientGroup{}, map[candidateKey]*candidateStorm{}
}

// Relist counts a LIST or WATCH before it begins. It returns 0 if the request may begin.
// In a storm that is paced it may return a wait of whole seconds instead. The caller then
// rejects the request, and asks the client to retry after the wait.
func (a *Accounts) Relist(r *Relist) time.Duration { return a.storms.relist(r, a.cfg.Clock.Now()) }

// ChargeInitialEvents charges the budget of a client with the bytes of a watch's initial events.
func (a *Accounts) ChargeInitialEvents(client serverreport.Client, address string, bytes uint64) {
	a.cfg.Budgets.chargeCost(client.User, address, &serverreport.ListCost{Bytes: bytes})
}

// AddRelistBytes adds to the bytes of a storm, if there is one. It is for the initial
// events of a watch. Observe adds the bytes of LISTs itself.
func (a *Accounts) AddRelistBytes(program, resource string, bytes uint64) {
	a.storms.addBytes(program, resource, bytes)
}

// Run ends storms that are over, until the context ends. Without Run they end at the next
// Relist, report or scrape.
func (a *Accounts) Run(ctx context.Context) {
	ticker := a.cfg.Clock.NewTicker(stormWindow / stormSteps)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
			a.storms.counts(a.cfg.Clock.Now())
		case <-ctx.Done():
			return
		}
	}
}

func (s *stormDetector) relist(r *Relist, now time.Time) time.Duration {
	byHost := maphash.Comparable(s.seed, [2]string{r.Client.User, host(r.Address)})
	byConnection := maphash.Comparable(s.seed, [2]string{r.Client.User, r.Address})
	s.mu.Lock()
	defer s.mu.Unlock()
	group := s.groupLocked(r.Client.UserAgent)
	group.lastSeen = now
	group.hosts.Add(now, byHost)
	group.connections.Add(now, byConnection)
	if !r.Full {
		return 0
	}
	key := candidateKey{r.Client.UserAgent, r.Resource}
	c := s.candidateLocked(key)
	c.lastSeen = now
	c.hosts.Add(now, byHost)
	c.connections.Add(now, byConnection)
	s.evaluateLocked(key, c, now)
	if c.storm == nil {
		return 0
	}
	c.storm.Requests++
	client := byHost
	if c.byConnection {
		client = byConnection
	}
	c.listed.Add(client)
	if c.pacer == nil || r.Exempt {
		return 0
	}
	before := len(c.pacer.tickets)
	wait := c.pacer.admit(now, client, maxTickets-s.mu.tickets)
	s.mu.tickets += len(c.pacer.tickets) - before
	if wait > 0 {
		s.mu.paced++
	}
	return wait
}

// evaluateLocked begins or ends the storm of a candidate, if its counts say so. It
// also updates the counts and the rate of a storm that goes on.
func (s *stormDetector) evaluateLocked(key candidateKey, c *candidateStorm, now time.Time) {
	if now.Sub(c.countedAt) < recountAfter && (c.storm != nil || c.hosts.Costly() || c.connections.Costly() || c.tooFew()) {
		return
	}
	c.countedAt = now
	hosts, connections := c.hosts.Count(now), c.connections.Count(now)
	groupHosts, groupConnections := s.groupLocked(key.program).count(now)
	groupHosts, groupConnections = max(groupHosts, hosts), max(groupConnections, connections)
	c.updateBaseline(now, max(hosts, connections))
	aboveBaseline := float64(max(hosts, connections)) >= 2*c.baseline
	if c.storm == nil {
		c.byConnection = !isStormSize(hosts, groupHosts) && maybeProxied(hosts) && connections >= manyClients
	}
	clients, group := hosts, groupHosts
	if c.byConnection {
		clients, group = connections, groupConnections
	}
	switch {
	case c.storm == nil && aboveBaseline && isStormSize(clients, group) && (!c.byConnection || largeShare*clients >= group):
		s.beginLocked(key, c, now)
		s.logStorm("Storm of relists began", c.storm, clients, group)
	case c.storm == nil:
		return
	case !s.waitingLocked(c, now) && !(aboveBaseline && isStormSize(2*clients, group)):
		s.endLocked(c)
		return
	}
	c.storm.Clients = c.listed.Count()
	c.storm.Fleet = max(c.storm.Fleet, group, c.storm.Clients)
	if c.pacer != nil {
		c.pacer.setRate(now, float64(c.storm.Fleet)*s.cfg.PacePercent/100)
	}
}

// beginLocked begins a storm. The clients of the candidate's window are its first.
func (s *stormDetector) beginLocked(key candidateKey, c *candidateStorm, now time.Time) {
	c.storm = &serverreport.Storm{UserAgent: strings.Clone(key.program), Resource: strings.Clone(key.resource), Began: now}
	recent := &c.hosts
	if c.byConnection {
		recent = &c.connections
	}
	c.listed = recent.Union(now)
	// relist counts the request that began the storm.
	c.storm.Requests = uint64(c.listed.Count()) - 1
	if s.cfg.PacePercent > 0 {
		c.pacer = newPacer(now)
	}
}

// waitingLocked reports whether clients of a storm hold tickets.
func (s *stormDetector) waitingLocked(c *candidateStorm, now time.Time) bool {
	if c.pacer == nil {
		return false
	}
	before := len(c.pacer.tickets)
	c.pacer.expire(now)
	s.mu.tickets += len(c.pacer.tickets) - before
	return len(c.pacer.tickets) > 0
}

// endLocked ends a storm. Its end is the time of its last request.
func (s *stormDetector) endLocked(c *candidateStorm) {
	if c.pacer != nil {
		s.mu.tickets -= len(c.pacer.tickets)
	}
	c.storm.Ended, c.storm.Clients = c.lastSeen, c.listed.Count()
	s.logStorm("Storm of relists ended", c.storm, c.storm.Clients, c.storm.Fleet)
	if s.mu.past = append(s.mu.past, *c.storm); len(s.mu.past) > maxPastStorms {
		s.mu.past = s.mu.past[1:]
	}
	c.storm, c.pacer, c.listed = nil, nil, distinct.Counter{}
}
