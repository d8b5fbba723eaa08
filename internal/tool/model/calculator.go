package model

import (
	"maps"
	"slices"
)

// calculator computes the demand of clusters from constants.
type calculator struct {
	servers   map[string]*prices
	replica   *prices
	wire      wire
	etcd      etcdPrices
	writeSent float64            // bytes that a server sends per byte of a write, as JSON
	feedSent  map[string]float64 // bytes that a process sends a replica per byte of an event, as JSON, by kind of process
	reader    constantReader
}

// etcdPrices has the constants of an etcd.
type etcdPrices struct {
	idle        float64 // processors without any work
	quiet, busy float64 // seconds of CPU per write, at an idle and at a busy etcd
	history     float64 // seconds before a version is compacted
	quietRate   float64 // as in prices
}

// newCalculator returns a calculator, or an error if a constant is missing.
func newCalculator(constants Constants) (*calculator, error) {
	r := constantReader{constants: constants}
	event := r.value("fleet.eventBytes")
	m := &calculator{
		servers: map[string]*prices{kubernetes: r.pricesOf(kubernetes), millrace: r.pricesOf(millrace)},
		replica: r.pricesOf(replica),
		wire:    wire{r.value("protobufRatio"), r.value("streams")},
		etcd: etcdPrices{
			idle: r.value("etcd.idle"), quiet: r.value("etcd.writeQuiet"), busy: r.value("etcd.writeBusy"),
			history: r.value("etcd.historySeconds"), quietRate: r.value("quietRate"),
		},
		writeSent: r.value("fleet.writeBytes") / event,
		feedSent: map[string]float64{kubernetes: r.value("fleet.feedBytes.server") / event,
			millrace: r.value("fleet.feedBytes.replica") / event},
	}
	m.feedSent[replica] = m.feedSent[millrace]
	m.reader = r
	return m, r.err
}

// Bounds of a replica in a tree whose replicas sizeTree counts: fractions of its processors, memory
// and network, and the time for an event.
const (
	sizedCPU     = 0.5
	sizedMemory  = 0.8
	sizedNetwork = 0.5
	sizedEvent   = 0.1 // seconds, for the costliest event to all its watchers
	// fanout bounds the number of replicas that follow one process.
	fanout = 32
)

// usage returns the demand of a cluster with its loads in a setup.
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
	u.StormSeconds = m.stormSeconds(c, l.nodes, u.readers)
	return u
}

// loads has the load of the programs on all nodes, and the load of the programs of which a cluster
// has one or a few. Programs of the cluster always read at the servers.
type loads struct{ nodes, cluster *load }

// serverUsage returns the usage of the API servers without their readers, except controllers.
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
	// Each server follows the writes of all other servers.
	u.fixedCPU = p.idle + p.follow*w.perSecond*(n-1)/n
	u.CPU += n*u.fixedCPU + n*p.cpuAtRate(p.takeQuiet, p.takeBusy, w.perSecond/n) + w.gets*(p.request+p.etcdGet)
	u.SentBytes += w.bytes * m.writeSent
	u.fixedBytes = p.base + p.used + p.objectByte*all + p.definition*c.Definitions
	u.MemoryBytes, u.StormBytes = u.fixedBytes, u.fixedBytes
	return u
}

// addReaders adds a load to the processes at which its programs read.
func (m *calculator) addReaders(c *Cluster, l *load, u *ProcessUsage) {
	n, p := float64(u.Processes), u.prices
	u.CPU += readCPU(l, p)
	u.SentBytes += readSent(l, p)
	u.Watches += l.watches
	u.Connections += l.connections
	memory := l.watches*p.watch + l.connections*p.connection
	u.MemoryBytes += memory / n
	u.StormBytes += (memory + c.Storm*l.watches*p.stormWatch) / n
	cpu, bytes := costliestEvent(l, p)
	u.EventSeconds = max(u.EventSeconds, max(cpu/n/c.Cores, bytes/n/c.networkBytes()))
}

// readCPU returns the CPU of a load in steady state, in processors.
func readCPU(l *load, p *prices) float64 {
	cpu := 0.0
	for _, name := range l.eventResources() {
		e := l.events[name]
		cpu += e.perSecond * e.watchers * p.eventSeconds(e.bytes/e.watchers)
	}
	for i := range l.steady {
		cpu += l.steady[i].cpuSeconds(p)
	}
	return cpu
}

// readSent returns the bytes that are sent per second for a load in steady state.
func readSent(l *load, p *prices) float64 {
	sent := 0.0
	for _, name := range l.eventResources() {
		sent += l.events[name].perSecond * l.events[name].bytes
	}
	for i := range l.steady {
		sent += l.steady[i].sentBytes(p)
	}
	return sent
}

// costliestEvent returns the largest CPU, in seconds, and the largest number of bytes that one
// event costs with all its watchers.
func costliestEvent(l *load, p *prices) (cpu, bytes float64) {
	for _, name := range l.eventResources() {
		e := l.events[name]
		cpu, bytes = max(cpu, e.watchers*p.eventSeconds(e.bytes/e.watchers)), max(bytes, e.bytes)
	}
	return cpu, bytes
}

// stormCosts returns the CPU, in seconds, and the bytes for all programs of a storm together.
func stormCosts(c *Cluster, l *load, p *prices) (cpu, sent float64) {
	cpu = l.connections * p.handshake
	for i := range l.storm {
		cpu += l.storm[i].cpuSeconds(p)
		sent += l.storm[i].sentBytes(p)
	}
	return c.Storm * cpu, c.Storm * sent
}

// stormSeconds returns Usage.StormSeconds.
func (m *calculator) stormSeconds(c *Cluster, l *load, u *ProcessUsage) float64 {
	cpu, sent := stormCosts(c, l, u.prices)
	n := float64(u.Processes)
	return max(cpu/n/c.Cores, sent/n/c.networkBytes())
}

// etcdUsage returns the usage of all etcds.
func (m *calculator) etcdUsage(c *Cluster, w *writeLoad) (u EtcdUsage) {
	for _, name := range slices.Sorted(maps.Keys(w.etcds)) {
		e := w.etcds[name]
		database := e.databaseBytes(m.etcd.history)
		u.WritesPerSecond += e.perSecond
		u.CPU += m.etcd.idle + m.etcd.busy*e.perSecond + (m.etcd.quiet-m.etcd.busy)*min(e.perSecond, m.etcd.quietRate)
		u.SentBytes += e.changedBytes * float64(c.Servers)
		u.DatabaseBytes += database
		u.MaxWrites, u.MaxBytes = max(u.MaxWrites, e.perSecond), max(u.MaxBytes, database)
	}
	return u
}
