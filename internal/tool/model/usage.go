package model

import (
	"maps"
	"slices"
)

// Usage is what a cluster needs in a setup.
type Usage struct {
	Servers ProcessUsage `json:"servers"`
	// Tiers are the replicas by depth.
	Tiers []ProcessUsage `json:"tiers,omitempty"`
	Etcd  EtcdUsage      `json:"etcd"`
	// BeginSeconds is how long it takes until all programs that begin at once have all
	// objects, if they do no more than the processors and networks can take.
	BeginSeconds float64 `json:"beginSeconds"`

	readers *ProcessUsage // at which nodes read
}

// ProcessUsage is the processes of one tier. CPU is in processors.
type ProcessUsage struct {
	Processes   int     `json:"processes"`
	CPU         float64 `json:"cpu"` // of all together
	MemoryBytes float64 `json:"memoryBytes"`
	// BegunBytes is the memory after all watches began at once. Both are of one process.
	BegunBytes  float64 `json:"begunBytes"`
	SentBytes   float64 `json:"sentBytesPerSecond"` // by all together
	Watches     float64 `json:"watches"`
	Connections float64 `json:"connections"`
	// EventSeconds is the time for the event that goes to the most watchers.
	EventSeconds float64 `json:"eventSeconds"`

	prices *prices
	// fixedCPU and fixedBytes are those parts of one process that more processes do not make
	// smaller.
	fixedCPU, fixedBytes float64
}

// each is the CPU of one process.
func (u *ProcessUsage) each() float64 { return u.CPU / float64(u.Processes) }

// EtcdUsage is the etcds of a cluster.
type EtcdUsage struct {
	WritesPerSecond float64 `json:"writesPerSecond"`
	CPU             float64 `json:"cpu"`
	SentBytes       float64 `json:"sentBytesPerSecond"` // to servers
	DatabaseBytes   float64 `json:"databaseBytes"`
	// MostWrites and MostBytes are those of the etcd that has the most.
	MostWrites float64 `json:"mostWritesPerSecond"`
	MostBytes  float64 `json:"mostDatabaseBytes"`
}

// calculator has all constants of a calculation.
type calculator struct {
	servers   map[string]*prices
	replica   *prices
	wire      wire
	etcd      etcdPrices
	writeSent float64 // sent for a byte of a write, as JSON
	feedSent  map[string]float64
	reader    constantReader
}

type etcdPrices struct{ idle, quiet, busy, history, wakeups float64 }

func newCalculator(constants Constants) (*calculator, error) {
	r := constantReader{constants: constants}
	event := r.value("fleet.eventBytes")
	m := &calculator{
		servers:   map[string]*prices{kubernetes: r.pricesOf(kubernetes), millrace: r.pricesOf(millrace)},
		replica:   r.pricesOf(replica),
		wire:      wire{r.value("protobufRatio"), r.value("streams")},
		etcd:      etcdPrices{r.value("etcd.idle"), r.value("etcd.writeQuiet"), r.value("etcd.writeBusy"), r.value("etcd.historySeconds"), r.value("wakeups")},
		writeSent: r.value("fleet.writeBytes") / event,
		feedSent:  map[string]float64{kubernetes: r.value("fleet.feedBytes.server") / event, millrace: r.value("fleet.feedBytes.replica") / event},
	}
	m.feedSent[replica] = m.feedSent[millrace]
	m.reader = r
	return m, r.err
}

// Sizing of a tree whose replicas are counted: a replica is as loaded as this, at most.
const (
	sizedCPU     = 0.5
	sizedMemory  = 0.8
	sizedNetwork = 0.5
	sizedEvent   = 0.1 // seconds, for the event that goes to the most watchers
	// fanout is how many replicas follow one process.
	fanout = 32
)

func (m *calculator) usage(c *Cluster, l *loads, setup Setup) *Usage {
	w := c.writes(m.wire.protobufRatio)
	u := &Usage{Servers: m.serverUsage(c, w, m.servers[setup.Server]), Etcd: m.etcdUsage(c, w)}
	u.readers = &u.Servers
	if setup.Replicas {
		m.addTree(c, l.nodes, w, u)
		u.readers = &u.Tiers[len(u.Tiers)-1]
	}
	m.addReaders(c, l.nodes, u.readers)
	m.addReaders(c, l.cluster, &u.Servers)
	u.BeginSeconds = m.beginSeconds(c, l.nodes, u.readers)
	return u
}

// loads are what programs on each node read, and what those read of which the cluster has one
// or a few. The latter read at the servers.
type loads struct{ nodes, cluster *load }

// serverUsage is the API servers without their readers.
func (m *calculator) serverUsage(c *Cluster, w *writeLoad, p *prices) ProcessUsage {
	n := float64(c.Servers)
	u := ProcessUsage{Processes: c.Servers, prices: p}
	all := 0.0
	for _, r := range c.resourceLoads() {
		all += r.objects * r.bytes
		u.CPU += controllers * r.changes * p.eventSeconds(r.bytes)
		u.SentBytes += controllers * r.changes * r.bytes * m.wire.protobufRatio
		u.Watches += controllers
	}
	// Each server takes in what the others have written.
	u.fixedCPU = p.idle + p.follow*w.perSecond*(n-1)/n
	u.CPU += n*u.fixedCPU + n*p.quietShare(p.takeQuiet, p.takeBusy, w.perSecond/n) + w.gets*(p.request+p.etcdGet)
	u.SentBytes += w.bytes * m.writeSent
	u.fixedBytes = p.base + p.used + p.objectByte*all + p.definition*c.Definitions
	u.MemoryBytes, u.BegunBytes = u.fixedBytes, u.fixedBytes
	return u
}

// addReaders adds what nodes read to the processes at which they do.
func (m *calculator) addReaders(c *Cluster, l *load, u *ProcessUsage) {
	n, p := float64(u.Processes), u.prices
	u.CPU += readCPU(l, p)
	u.SentBytes += readSent(l, p)
	u.Watches += l.watches
	u.Connections += l.connections
	memory := l.watches*p.watch + l.connections*p.connection
	u.MemoryBytes += memory / n
	u.BegunBytes += (memory + c.Storm*l.watches*p.begin) / n
	cpu, bytes := mostEvent(l, p)
	u.EventSeconds = max(u.EventSeconds, max(cpu/n/c.Cores, bytes/n/c.networkBytes()))
}

// readCPU is the CPU of what nodes read in a second, in steady state.
func readCPU(l *load, p *prices) float64 {
	cpu := 0.0
	for _, name := range l.follows() {
		e := l.events[name]
		cpu += e.perSecond * e.watchers * p.eventSeconds(e.bytes/e.watchers)
	}
	for i := range l.steady {
		cpu += l.steady[i].cpu(p)
	}
	return cpu
}

func readSent(l *load, p *prices) float64 {
	sent := 0.0
	for _, name := range l.follows() {
		sent += l.events[name].perSecond * l.events[name].bytes
	}
	for i := range l.steady {
		sent += l.steady[i].sent(p)
	}
	return sent
}

// mostEvent is the CPU and the bytes for the event that goes to the most watchers.
func mostEvent(l *load, p *prices) (cpu, bytes float64) {
	for _, name := range l.follows() {
		e := l.events[name]
		cpu, bytes = max(cpu, e.watchers*p.eventSeconds(e.bytes/e.watchers)), max(bytes, e.bytes)
	}
	return cpu, bytes
}

// beginCosts is what all programs cost that begin at once, all together.
func beginCosts(c *Cluster, l *load, p *prices) (cpu, sent float64) {
	cpu = l.connections * p.handshake
	for i := range l.begin {
		cpu += l.begin[i].cpu(p)
		sent += l.begin[i].sent(p)
	}
	return c.Storm * cpu, c.Storm * sent
}

func (m *calculator) beginSeconds(c *Cluster, l *load, u *ProcessUsage) float64 {
	cpu, sent := beginCosts(c, l, u.prices)
	n := float64(u.Processes)
	return max(cpu/n/c.Cores, sent/n/c.networkBytes())
}

// etcdUsage is the etcds together, and the most that one of them has.
func (m *calculator) etcdUsage(c *Cluster, w *writeLoad) (u EtcdUsage) {
	for _, name := range slices.Sorted(maps.Keys(w.etcds)) {
		e := w.etcds[name]
		database := e.database(m.etcd.history)
		u.WritesPerSecond += e.perSecond
		u.CPU += m.etcd.idle + m.etcd.busy*e.perSecond + (m.etcd.quiet-m.etcd.busy)*min(e.perSecond, m.etcd.wakeups)
		u.SentBytes += e.changedBytes * float64(c.Servers)
		u.DatabaseBytes += database
		u.MostWrites, u.MostBytes = max(u.MostWrites, e.perSecond), max(u.MostBytes, database)
	}
	return u
}
