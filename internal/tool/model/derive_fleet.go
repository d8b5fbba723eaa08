package model

import (
	"fmt"
	"slices"
)

// calibrationInformers is the largest fleet in tree.json that constants are derived from. The
// larger ones are what Compare sets the simulation against.
const calibrationInformers = 1000

// fleets has the prices that bench replica and bench tree have measured: what writes cost a
// server and a replica, what informers cost when all begin at once, and their clients.
func (d *deriver) fleets() error {
	f, err := readFleets(d.dir)
	if err != nil {
		return err
	}
	for _, step := range []func(*fleets) error{d.quietServers, d.quietReplicas, d.informers, d.begins, d.bytes} {
		if err := step(f); err != nil {
			return err
		}
	}
	return nil
}

// fleets are both reports of informers.
type fleets struct{ one, tree fleetReport }

func readFleets(dir string) (*fleets, error) {
	f := &fleets{}
	if err := readReport(dir, replicaFile, &f.one); err != nil {
		return nil, err
	}
	if err := readReport(dir, treeFile, &f.tree); err != nil {
		return nil, err
	}
	for _, setup := range []string{"direct", "replica-api", "replica-etcd", "serve"} {
		if f.one.alone(setup) == nil {
			return nil, fmt.Errorf("read report %s: it lacks the setup %s without informers", replicaFile, setup)
		}
	}
	for _, setup := range []string{"depth-0", "depth-1", "depth-2"} {
		if f.tree.alone(setup) == nil || f.tree.find(setup, calibrationInformers) == nil {
			return nil, fmt.Errorf("read report %s: it lacks %s with 0 or %d informers", treeFile, setup, calibrationInformers)
		}
	}
	return f, nil
}

// fleetPair is a row with informers and that of the same setup with none.
type fleetPair struct {
	row, alone *fleetRow
	objects    float64 // of each informer
	replicas   float64
}

// pairs returns the rows that prices are derived from, of some setups.
func (f *fleets) pairs(setups ...string) []fleetPair {
	var all []fleetPair
	for _, r := range []*fleetReport{&f.one, &f.tree} {
		for i := range r.Results {
			row := &r.Results[i]
			alone := r.alone(row.Setup)
			few := row.Informers > 0 && (r == &f.one || row.Informers <= calibrationInformers)
			if few && alone != nil && row.Opening != nil && row.Error == "" && slices.Contains(setups, row.Setup) {
				all = append(all, fleetPair{row, alone, r.Plan.Objects, r.replicas(len(row.Tiers))})
			}
		}
	}
	return all
}

// Setups by what informers read at, and how sources name them.
var (
	atServer   = []string{"direct", "depth-0"}
	atMillrace = []string{"serve"}
	atReplica  = []string{"replica-api", "replica-etcd", "depth-1", "depth-2"}
)

const (
	serverRows  = replicaFile + ": direct, and " + treeFile + ": depth 0 up to 1,000 informers"
	replicaRows = replicaFile + ": both replicas, and " + treeFile + ": depths 1 and 2 with 1,000 informers"
	aloneRows   = replicaFile + " and " + treeFile + ": rows without informers"
)

func pool(pairs []fleetPair, cost, count func(p fleetPair) float64) float64 {
	sum, n := 0.0, 0.0
	for _, p := range pairs {
		sum, n = sum+cost(p), n+count(p)
	}
	if n == 0 {
		return 0
	}
	return sum / n
}

// line is the straight line through points: what something costs at rest, and for each x.
func line(points [][2]float64) (rest, each float64) {
	n, sx, sy, sxx, sxy := float64(len(points)), 0.0, 0.0, 0.0, 0.0
	for _, p := range points {
		sx, sy, sxx, sxy = sx+p[0], sy+p[1], sxx+p[0]*p[0], sxy+p[0]*p[1]
	}
	if spread := n*sxx - sx*sx; spread > 0 {
		each = (n*sxy - sx*sy) / spread
	}
	return max(0, (sy-each*sx)/n), each
}

// quietServers has what writes cost that nobody reads: at 10 and at 50 a second.
func (d *deriver) quietServers(f *fleets) error {
	var servers, etcds, clients [][2]float64
	memory := 0.0
	rows := []*fleetRow{f.one.alone("direct"), f.one.alone("replica-api"), f.one.alone("replica-etcd"), f.tree.alone("depth-0"), f.tree.alone("depth-1"), f.tree.alone("depth-2")}
	for _, row := range rows {
		s := row.seconds()
		servers = append(servers, [2]float64{row.PerSecond, row.Upstream.CPUSeconds / s})
		etcds = append(etcds, [2]float64{row.PerSecond, row.Etcd.CPUSeconds / s})
		clients = append(clients, [2]float64{row.PerSecond, row.ClientSeconds / s})
		memory += row.Upstream.RSSBytes / float64(len(rows))
	}
	rest, each := line(servers)
	d.add(kubernetes+".idle", Constant{rest, "s", Derived, aloneRows, "processors of a server to which nothing happens"})
	d.add(kubernetes+".writeQuiet", Constant{each, "s", Derived, aloneRows, "a write at a quiet server"})
	d.add(kubernetes+".base", Constant{memory, "B", Measured, aloneRows + ", the mean", "memory of a server without objects"})
	rest, each = line(etcds)
	d.add(etcd+".idle", Constant{rest, "s", Derived, aloneRows, "processors of etcd to which nothing happens"})
	d.add(etcd+".writeQuiet", Constant{each, "s", Derived, aloneRows, "a write, in a quiet etcd"})
	_, each = line(clients)
	d.add(client+".write", Constant{each, "s", Derived, aloneRows, "a write, at the client that makes it"})
	serve := f.one.alone("serve")
	d.add(millrace+".idle", Constant{d.constants[kubernetes+".idle"].Value, "s", Derived, "kubernetes.idle: the same code", "processors of a server to which nothing happens"})
	d.add(millrace+".writeQuiet", Constant{(serve.Upstream.CPUSeconds - d.constants[kubernetes+".idle"].Value*serve.seconds()) / serve.Writes, "s", Derived, replicaFile + ": serve without informers", "a write at a quiet server"})
	d.add(millrace+".base", Constant{serve.Upstream.RSSBytes, "B", Measured, replicaFile + ": serve without informers", "memory of a server without objects"})
	latency := f.tree.find("depth-0", 20)
	if latency == nil {
		return fmt.Errorf("read report %s: it lacks depth-0 with 20 informers", treeFile)
	}
	source := treeFile + ": depth 0 with 20 informers"
	d.add("write.p50", Constant{latency.Millis.P50 / 1e3, "s", Measured, source, "median time from a write to its event"})
	d.add("write.p99", Constant{latency.Millis.P99 / 1e3, "s", Measured, source, "p99 time from a write to its event"})
	return nil
}

// quietReplicas has what events cost a replica at which nobody reads.
func (d *deriver) quietReplicas(f *fleets) error {
	var quiet [][2]float64
	memory, replicas := 0.0, 0.0
	count := func(row *fleetRow, tier int, n float64) {
		memory, replicas = memory+row.Tiers[tier].RSSBytes, replicas+n
	}
	for _, setup := range []string{"replica-api", "replica-etcd"} {
		row := f.one.alone(setup)
		quiet = append(quiet, [2]float64{row.PerSecond, row.Tiers[0].CPUSeconds / row.seconds()})
	}
	count(f.one.alone("replica-api"), 0, 1)
	for _, setup := range []string{"depth-1", "depth-2"} {
		row := f.tree.alone(setup)
		last := len(row.Tiers) - 1
		quiet = append(quiet, [2]float64{row.PerSecond, row.Tiers[last].CPUSeconds / row.seconds() / f.tree.replicas(last+1)})
		for tier := range row.Tiers {
			count(row, tier, f.tree.replicas(tier+1))
		}
	}
	rest, each := line(quiet)
	d.add(replica+".idle", Constant{rest, "s", Derived, aloneRows, "processors of a replica to which nothing happens"})
	d.add(replica+".followQuiet", Constant{each, "s", Derived, aloneRows, "an event of its feed, at a quiet replica"})
	d.add(replica+".base", Constant{memory / replicas, "B", Measured, aloneRows + ", the mean", "memory of a replica without objects"})
	row := f.tree.alone("depth-2")
	middle := row.Tiers[0].CPUSeconds/row.seconds()/f.tree.replicas(1) - rest - each*row.PerSecond
	d.add(replica+".feedQuiet", Constant{max(0, middle) / row.PerSecond / float64(f.tree.Fanout), "s", Derived, treeFile + ": depth 2 without informers, the first tier less the second", "an event to a replica that is fed, at a quiet one"})
	return nil
}

// informers has what an event costs a replica and a client.
func (d *deriver) informers(f *fleets) error {
	events := func(p fleetPair) float64 { return p.row.Events }
	net := func(p fleetPair) float64 {
		return p.row.server().CPUSeconds - p.alone.server().CPUSeconds*p.row.Writes/p.alone.Writes
	}
	received := func(p fleetPair) float64 { return p.row.ClientSeconds - p.alone.ClientSeconds }
	d.add(replica+".event", Constant{pool(f.pairs(atReplica...), net, events), "s", Derived, replicaRows + ", less those without", "an event to a watcher, each with a connection"})
	d.add(client+".event", Constant{pool(f.pairs(slices.Concat(atServer, atReplica)...), received, events), "s", Derived, serverRows + "; " + replicaRows, "an event, at its watcher"})
	d.add(replica+".eventByte", Constant{d.constants[millrace+".eventByte"].Value, "s/B", Derived, "millrace.eventByte: the same code", "a byte of an event beyond the first 2,436"})
	for _, name := range []string{"handshake", "open", "initialByte", "watch", "connection", "request", "scanned", "listByte.json", "listByte.protobuf", "gzipByte.json", "gzipByte.protobuf", "gzipRatio.json", "gzipRatio.protobuf"} {
		c := d.constants[millrace+"."+name]
		c.Origin, c.Source = Derived, "millrace."+name+": the same code"
		d.add(replica+"."+name, c)
	}
	return nil
}

// readsPerClient is how many informers share a connection in both reports.
func readsPerClient(p fleetPair) float64 { return p.row.Informers / p.row.Clients }

// memoryOf divides what informers add to memory into a part for each process that is read and
// one for each informer, by least squares.
func memoryOf(pairs []fleetPair) (process, informer float64) {
	pp, pi, ii, pm, im := 0.0, 0.0, 0.0, 0.0, 0.0
	for _, p := range pairs {
		added := p.row.server().RSSBytes - p.alone.server().RSSBytes
		pp, pi, ii = pp+p.replicas*p.replicas, pi+p.replicas*p.row.Informers, ii+p.row.Informers*p.row.Informers
		pm, im = pm+p.replicas*added, im+p.row.Informers*added
	}
	if spread := pp*ii - pi*pi; spread > 0 {
		process = (pm*ii - im*pi) / spread
	}
	process = max(0, process)
	return process, max(0, im-process*pi) / ii
}

// begins has what an informer costs when all begin at once: CPU, of which the part for each
// object is what the other constants leave, and memory.
func (d *deriver) begins(f *fleets) error {
	informers := func(p fleetPair) float64 { return p.row.Informers }
	for name, setups := range map[string][]string{kubernetes: atServer, millrace: atMillrace, replica: atReplica} {
		rows := map[string]string{kubernetes: serverRows, millrace: replicaFile + ": serve", replica: replicaRows}[name]
		pairs := f.pairs(setups...)
		cpu := pool(pairs, func(p fleetPair) float64 {
			return p.row.Opening.server().CPUSeconds - p.alone.server().CPUSeconds*p.row.Opening.Writes/p.alone.Writes
		}, informers)
		bytes := pool(pairs, func(p fleetPair) float64 {
			return p.row.Opening.server().SentBytes - p.alone.server().SentBytes*p.row.Opening.Writes/p.alone.Writes
		}, informers)
		objects := pool(pairs, func(p fleetPair) float64 { return p.objects * p.row.Informers }, informers)
		shared := 1 / pool(pairs, func(p fleetPair) float64 { return readsPerClient(p) * p.row.Informers }, informers)
		used, memory := memoryOf(pairs)
		of := func(constant string) float64 { return d.constants[name+"."+constant].Value }
		rest := cpu - of("open") - of("handshake")*shared - of("initialByte")*bytes
		d.add(name+".informer", Constant{cpu, "s", Derived, rows + ", when all begin", "an informer that begins with 50 objects of 2.7 KB, ten of them on a connection"})
		d.add(name+".initialObject", Constant{max(0, rest) / objects, "s", Derived, rows + ": what open, handshake and initialByte leave", "an object among initial events"})
		d.add(name+".informerBytes", Constant{bytes, "B", Derived, rows, "what such an informer is sent when it begins"})
		d.add(name+".used", Constant{used, "B", Derived, rows, "memory that a process has in addition once it is read"})
		d.add(name+".begin", Constant{max(0, memory-of("watch")-of("connection")*shared), "B", Derived, rows + ": what watch and connection leave", "memory for a watch that began with all others"})
	}
	began := func(p fleetPair) float64 {
		return p.row.Opening.ClientSeconds - p.alone.ClientSeconds*p.row.Opening.Writes/p.alone.Writes
	}
	d.add(client+".informer.server", Constant{pool(f.pairs(atServer...), began, informers), "s", Derived, serverRows, "an informer that begins, at the client, if a kube-apiserver serves it"})
	d.add(client+".informer.replica", Constant{pool(f.pairs(atReplica...), began, informers), "s", Derived, replicaRows, "the same, if a replica serves it"})
	return nil
}

// bytes has what is sent: events, and for each write.
func (d *deriver) bytes(f *fleets) error {
	events := func(p fleetPair) float64 { return p.row.Events }
	sent := func(p fleetPair) float64 {
		return p.row.server().SentBytes - p.alone.server().SentBytes*p.row.Writes/p.alone.Writes
	}
	d.add("fleet.eventBytes", Constant{pool(f.pairs(slices.Concat(atServer, atReplica)...), sent, events), "B", Derived, serverRows + "; " + replicaRows, "an event of the fleets, as JSON"})
	direct, fed, own := f.one.alone("direct"), f.one.alone("replica-api"), f.tree.alone("depth-0")
	d.add("fleet.writeBytes", Constant{(direct.Upstream.SentBytes + own.Upstream.SentBytes) / (direct.Writes + own.Writes), "B", Measured, aloneRows, "what a server sends for a write of the fleets, to etcd and to its client"})
	d.add("fleet.feedBytes.server", Constant{(fed.Upstream.SentBytes - direct.Upstream.SentBytes) / direct.Writes, "B", Derived, replicaFile + ": replica-api, less direct, without informers", "an event of the fleets from a kube-apiserver to a replica"})
	deep := f.tree.alone("depth-2")
	d.add("fleet.feedBytes.replica", Constant{(deep.Tiers[0].SentBytes - deep.Tiers[1].SentBytes/2) / deep.Writes / f.tree.replicas(2), "B", Derived, treeFile + ": depth 2 without informers", "the same from a replica to a replica"})
	return nil
}
