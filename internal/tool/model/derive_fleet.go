package model

import (
	"fmt"
	"slices"
)

// calibrationInformers is the largest fleet in tree.json from which constants are derived. Compare
// checks the simulation with larger fleets.
const calibrationInformers = 1000

// deriveFleets sets the prices that bench replica and bench tree have measured: of writes at a
// server and a replica, and of informers in a storm.
func (d *deriver) deriveFleets() error {
	f, err := readFleets(d.dir)
	if err != nil {
		return err
	}
	for _, step := range []func(*fleets) error{d.deriveQuietServers, d.deriveQuietReplicas, d.deriveInformers, d.deriveStorms, d.deriveBytes} {
		if err := step(f); err != nil {
			return err
		}
	}
	return nil
}

// fleets has the reports of bench replica, with one replica, and of bench tree.
type fleets struct{ one, tree fleetReport }

// readFleets returns the reports in a directory, or an error if they lack rows that constants need.
func readFleets(dir string) (*fleets, error) {
	f := &fleets{}
	if err := readReport(dir, replicaFile, &f.one); err != nil {
		return nil, err
	}
	if err := readReport(dir, treeFile, &f.tree); err != nil {
		return nil, err
	}
	for _, setup := range []string{"direct", "replica-api", "replica-etcd", "serve"} {
		if f.one.baseline(setup) == nil {
			return nil, fmt.Errorf("read report %s: it lacks the setup %s without informers", replicaFile, setup)
		}
	}
	for _, setup := range []string{"depth-0", "depth-1", "depth-2"} {
		if f.tree.baseline(setup) == nil || f.tree.find(setup, calibrationInformers) == nil {
			return nil, fmt.Errorf("read report %s: it lacks %s with 0 or %d informers", treeFile, setup, calibrationInformers)
		}
	}
	return f, nil
}

// fleetPair is a row with informers, and the row of the same setup without informers.
type fleetPair struct {
	row, baseline *fleetRow
	objects       float64 // of each informer
	replicas      float64 // at which informers read
}

// pairs returns the rows of some setups from which prices are derived.
func (f *fleets) pairs(setups ...string) []fleetPair {
	var all []fleetPair
	for _, r := range []*fleetReport{&f.one, &f.tree} {
		for i := range r.Results {
			row := &r.Results[i]
			baseline := r.baseline(row.Setup)
			few := row.Informers > 0 && (r == &f.one || row.Informers <= calibrationInformers)
			if few && baseline != nil && row.Opening != nil && row.Error == "" && slices.Contains(setups, row.Setup) {
				all = append(all, fleetPair{row, baseline, r.Plan.Objects, r.replicasAtDepth(len(row.Tiers))})
			}
		}
	}
	return all
}

// Setups by the processes at which informers read.
var (
	atServer   = []string{"direct", "depth-0"}
	atMillrace = []string{"serve"}
	atReplica  = []string{"replica-api", "replica-etcd", "depth-1", "depth-2"}
)

// Names of rows for Constant.Source.
const (
	serverRows  = replicaFile + ": direct, and " + treeFile + ": depth 0 up to 1,000 informers"
	replicaRows = replicaFile + ": both replicas, and " + treeFile + ": depths 1 and 2 with 1,000 informers"
	aloneRows   = replicaFile + " and " + treeFile + ": rows without informers"
)

// pooledMean returns the sum of the costs of pairs, divided by the sum of their counts.
func pooledMean(pairs []fleetPair, cost, count func(p fleetPair) float64) float64 {
	var sum, n float64
	for _, p := range pairs {
		sum += cost(p)
		n += count(p)
	}
	if n == 0 {
		return 0
	}
	return sum / n
}

// fitLine returns the straight line through points (x, y) by least squares: y at x = 0, or 0 if it
// is negative, and the slope.
func fitLine(points [][2]float64) (intercept, slope float64) {
	n := float64(len(points))
	var sx, sy, sxx, sxy float64 // sums of x, y, x² and x·y
	for _, p := range points {
		sx += p[0]
		sy += p[1]
		sxx += p[0] * p[0]
		sxy += p[0] * p[1]
	}
	if spread := n*sxx - sx*sx; spread > 0 {
		slope = (n*sxy - sx*sy) / spread
	}
	return max(0, (sy-slope*sx)/n), slope
}

// deriveQuietServers sets the prices of writes without readers, from rows with 10 and 50 writes a
// second. It also sets the memory of servers, and the time from a write to its event.
func (d *deriver) deriveQuietServers(f *fleets) error {
	var servers, etcds, clients [][2]float64
	memory := 0.0
	rows := []*fleetRow{
		f.one.baseline("direct"), f.one.baseline("replica-api"), f.one.baseline("replica-etcd"),
		f.tree.baseline("depth-0"), f.tree.baseline("depth-1"), f.tree.baseline("depth-2"),
	}
	for _, row := range rows {
		s := row.seconds()
		servers = append(servers, [2]float64{row.PerSecond, row.Upstream.CPUSeconds / s})
		etcds = append(etcds, [2]float64{row.PerSecond, row.Etcd.CPUSeconds / s})
		clients = append(clients, [2]float64{row.PerSecond, row.ClientSeconds / s})
		memory += row.Upstream.RSSBytes / float64(len(rows))
	}
	rest, each := fitLine(servers)
	d.set(kubernetes+".idle", Constant{rest, "s", Derived, aloneRows, "processors of a server to which nothing happens"})
	d.set(kubernetes+".writeQuiet", Constant{each, "s", Derived, aloneRows, "a write at a quiet server"})
	d.set(kubernetes+".base", Constant{memory, "B", Measured, aloneRows + ", the mean", "memory of a server without objects"})
	rest, each = fitLine(etcds)
	d.set(etcd+".idle", Constant{rest, "s", Derived, aloneRows, "processors of etcd to which nothing happens"})
	d.set(etcd+".writeQuiet", Constant{each, "s", Derived, aloneRows, "a write, in a quiet etcd"})
	_, each = fitLine(clients)
	d.set(client+".write", Constant{each, "s", Derived, aloneRows, "a write, at the client that makes it"})
	serve := f.one.baseline("serve")
	d.set(millrace+".idle", Constant{
		d.constants[kubernetes+".idle"].Value, "s", Derived,
		"kubernetes.idle, whose code this server shares", "processors of a server to which nothing happens",
	})
	d.set(millrace+".writeQuiet", Constant{
		(serve.Upstream.CPUSeconds - d.constants[kubernetes+".idle"].Value*serve.seconds()) / serve.Writes, "s", Derived,
		replicaFile + ": serve without informers", "a write at a quiet server",
	})
	d.set(millrace+".base", Constant{
		serve.Upstream.RSSBytes, "B", Measured,
		replicaFile + ": serve without informers", "memory of a server without objects",
	})
	latency := f.tree.find("depth-0", 20)
	if latency == nil {
		return fmt.Errorf("read report %s: it lacks depth-0 with 20 informers", treeFile)
	}
	source := treeFile + ": depth 0 with 20 informers"
	d.set("write.p50", Constant{latency.Millis.P50 / 1e3, "s", Measured, source, "median time from a write to its event"})
	d.set("write.p99", Constant{latency.Millis.P99 / 1e3, "s", Measured, source, "p99 time from a write to its event"})
	return nil
}

// deriveQuietReplicas sets the prices of events at replicas without readers, and their memory.
func (d *deriver) deriveQuietReplicas(f *fleets) error {
	var quiet [][2]float64
	var memory, replicas float64
	count := func(row *fleetRow, tier int, n float64) {
		memory += row.Tiers[tier].RSSBytes
		replicas += n
	}
	for _, setup := range []string{"replica-api", "replica-etcd"} {
		row := f.one.baseline(setup)
		quiet = append(quiet, [2]float64{row.PerSecond, row.Tiers[0].CPUSeconds / row.seconds()})
	}
	count(f.one.baseline("replica-api"), 0, 1)
	for _, setup := range []string{"depth-1", "depth-2"} {
		row := f.tree.baseline(setup)
		last := len(row.Tiers) - 1
		quiet = append(quiet, [2]float64{row.PerSecond, row.Tiers[last].CPUSeconds / row.seconds() / f.tree.replicasAtDepth(last+1)})
		for tier := range row.Tiers {
			count(row, tier, f.tree.replicasAtDepth(tier+1))
		}
	}
	rest, each := fitLine(quiet)
	d.set(replica+".idle", Constant{rest, "s", Derived, aloneRows, "processors of a replica to which nothing happens"})
	d.set(replica+".followQuiet", Constant{each, "s", Derived, aloneRows, "an event of its feed, at a quiet replica"})
	d.set(replica+".base", Constant{memory / replicas, "B", Measured, aloneRows + ", the mean", "memory of a replica without objects"})
	row := f.tree.baseline("depth-2")
	middle := row.Tiers[0].CPUSeconds/row.seconds()/f.tree.replicasAtDepth(1) - rest - each*row.PerSecond
	d.set(replica+".feedQuiet", Constant{
		max(0, middle) / row.PerSecond / float64(f.tree.Fanout), "s", Derived,
		treeFile + ": depth 2 without informers, the first tier less the second", "an event to a replica that is fed, at a quiet one",
	})
	return nil
}

// deriveInformers sets the prices of an event at a replica and at a client. It also sets the prices
// that a replica shares with a Millrace server.
func (d *deriver) deriveInformers(f *fleets) error {
	events := func(p fleetPair) float64 { return p.row.Events }
	net := func(p fleetPair) float64 {
		return p.row.servingCost().CPUSeconds - p.baseline.servingCost().CPUSeconds*p.row.Writes/p.baseline.Writes
	}
	received := func(p fleetPair) float64 { return p.row.ClientSeconds - p.baseline.ClientSeconds }
	d.set(replica+".event", Constant{
		pooledMean(f.pairs(atReplica...), net, events), "s", Derived,
		replicaRows + ", less those without", "an event to a watcher, each with a connection",
	})
	d.set(client+".event", Constant{
		pooledMean(f.pairs(slices.Concat(atServer, atReplica)...), received, events), "s", Derived,
		serverRows + "; " + replicaRows, "an event, at its watcher",
	})
	d.set(replica+".eventByte", Constant{
		d.constants[millrace+".eventByte"].Value, "s/B", Derived,
		"millrace.eventByte, whose code replicas share", "a byte of an event beyond the first 2,436",
	})
	for _, name := range []string{
		"handshake", "open", "initialByte", "watch", "connection", "request", "scanned",
		"listByte.json", "listByte.protobuf", "gzipByte.json", "gzipByte.protobuf", "gzipRatio.json", "gzipRatio.protobuf",
	} {
		c := d.constants[millrace+"."+name]
		c.Origin, c.Source = Derived, "millrace."+name+", whose code replicas share"
		d.set(replica+"."+name, c)
	}
	return nil
}

// readsPerClient returns the number of informers that share a connection.
func readsPerClient(p fleetPair) float64 { return p.row.Informers / p.row.Clients }

// fitMemory divides the memory that informers add, by least squares: into a part for each process
// with readers, and a part for each informer.
func fitMemory(pairs []fleetPair) (process, informer float64) {
	var pp, pi, ii, pm, im float64 // sums of products: p processes, i informers, m memory
	for _, p := range pairs {
		added := p.row.servingCost().RSSBytes - p.baseline.servingCost().RSSBytes
		pp += p.replicas * p.replicas
		pi += p.replicas * p.row.Informers
		ii += p.row.Informers * p.row.Informers
		pm += p.replicas * added
		im += p.row.Informers * added
	}
	if spread := pp*ii - pi*pi; spread > 0 {
		process = (pm*ii - im*pi) / spread
	}
	process = max(0, process)
	return process, max(0, im-process*pi) / ii
}

// deriveStorms sets the CPU and the memory of an informer in a storm. The CPU that other constants
// do not explain is the price of objects.
func (d *deriver) deriveStorms(f *fleets) error {
	informers := func(p fleetPair) float64 { return p.row.Informers }
	for name, setups := range map[string][]string{kubernetes: atServer, millrace: atMillrace, replica: atReplica} {
		rows := map[string]string{kubernetes: serverRows, millrace: replicaFile + ": serve", replica: replicaRows}[name]
		pairs := f.pairs(setups...)
		cpu := pooledMean(pairs, func(p fleetPair) float64 {
			return p.row.Opening.servingCost().CPUSeconds - p.baseline.servingCost().CPUSeconds*p.row.Opening.Writes/p.baseline.Writes
		}, informers)
		bytes := pooledMean(pairs, func(p fleetPair) float64 {
			return p.row.Opening.servingCost().SentBytes - p.baseline.servingCost().SentBytes*p.row.Opening.Writes/p.baseline.Writes
		}, informers)
		objects := pooledMean(pairs, func(p fleetPair) float64 { return p.objects * p.row.Informers }, informers)
		shared := 1 / pooledMean(pairs, func(p fleetPair) float64 { return readsPerClient(p) * p.row.Informers }, informers)
		used, memory := fitMemory(pairs)
		of := func(constant string) float64 { return d.constants[name+"."+constant].Value }
		rest := cpu - of("open") - of("handshake")*shared - of("initialByte")*bytes
		d.set(name+".informer", Constant{
			cpu, "s", Derived,
			rows + ", when all informers start at the same time", "an informer that starts with 50 objects of 2.7 KB, ten of them on a connection",
		})
		d.set(name+".initialObject", Constant{
			max(0, rest) / objects, "s", Derived,
			rows + ": what open, handshake and initialByte leave", "an object among initial events",
		})
		d.set(name+".informerBytes", Constant{bytes, "B", Derived, rows, "what an informer with 50 objects of 2.7 KB is sent when it starts"})
		d.set(name+".used", Constant{used, "B", Derived, rows, "memory that a process has in addition once it is read"})
		d.set(name+".storm", Constant{
			max(0, memory-of("watch")-of("connection")*shared), "B", Derived,
			rows + ": what watch and connection leave", "memory for a watch of a storm, beyond that of a watch",
		})
	}
	began := func(p fleetPair) float64 {
		return p.row.Opening.ClientSeconds - p.baseline.ClientSeconds*p.row.Opening.Writes/p.baseline.Writes
	}
	d.set(client+".informer.server", Constant{
		pooledMean(f.pairs(atServer...), began, informers), "s", Derived,
		serverRows, "an informer that starts, at the client, if a kube-apiserver serves it",
	})
	d.set(client+".informer.replica", Constant{
		pooledMean(f.pairs(atReplica...), began, informers), "s", Derived,
		replicaRows, "an informer that starts, at the client, if a replica serves it",
	})
	return nil
}

// deriveBytes sets the bytes that are sent for an event and for a write.
func (d *deriver) deriveBytes(f *fleets) error {
	events := func(p fleetPair) float64 { return p.row.Events }
	sent := func(p fleetPair) float64 {
		return p.row.servingCost().SentBytes - p.baseline.servingCost().SentBytes*p.row.Writes/p.baseline.Writes
	}
	d.set("fleet.eventBytes", Constant{
		pooledMean(f.pairs(slices.Concat(atServer, atReplica)...), sent, events), "B", Derived,
		serverRows + "; " + replicaRows, "an event of the fleets, as JSON",
	})
	direct, fed, own := f.one.baseline("direct"), f.one.baseline("replica-api"), f.tree.baseline("depth-0")
	d.set("fleet.writeBytes", Constant{
		(direct.Upstream.SentBytes + own.Upstream.SentBytes) / (direct.Writes + own.Writes), "B", Measured,
		aloneRows, "what a server sends for a write of the fleets, to etcd and to its client",
	})
	d.set("fleet.feedBytes.server", Constant{
		(fed.Upstream.SentBytes - direct.Upstream.SentBytes) / direct.Writes, "B", Derived,
		replicaFile + ": replica-api, less direct, without informers", "an event of the fleets from a kube-apiserver to a replica",
	})
	deep := f.tree.baseline("depth-2")
	d.set("fleet.feedBytes.replica", Constant{
		(deep.Tiers[0].SentBytes - deep.Tiers[1].SentBytes/2) / deep.Writes / f.tree.replicasAtDepth(2), "B", Derived,
		treeFile + ": depth 2 without informers", "an event of the fleets from a replica to a replica",
	})
	return nil
}
