package model

import (
	"fmt"
	"path/filepath"

	"github.com/millrace/millrace/internal/tool/price"
)

// Names of processes with prices. Servers in reports have the first two names, too.
const (
	kubernetes = "kubernetes"
	millrace   = "millrace"
	replica    = "replica"
	client     = "client"
	etcd       = "etcd"
)

// kubeAPIServer is the name that reports of bench list have for a kube-apiserver binary.
const kubeAPIServer = "kube-apiserver"

// deriver derives constants from the reports in a directory.
type deriver struct {
	dir       string
	constants Constants
}

// Derive returns the constants that follow from the reports in a directory, and the assumptions.
func Derive(dir string) (Constants, error) {
	d := &deriver{dir: dir, constants: assumptions()}
	for _, step := range []func() error{
		d.deriveReads, d.deriveEncodings, d.deriveObjects, d.deriveDefinitions, d.deriveWatches, d.deriveFleets,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	for name, c := range d.constants {
		c.Value = price.ThreeDigits(c.Value)
		if c.Value < 0 {
			return nil, fmt.Errorf("derive constants from %s: %s is %g, below 0: the reports are not of the same machine, "+
				"or too short", dir, name, c.Value)
		}
		d.constants[name] = c
	}
	return d.constants, nil
}

func (d *deriver) set(name string, c Constant) { d.constants[name] = c }

// deriveReads sets the prices of GETs and LISTs. They come from the price list of package price,
// which is derived from the same reports.
func (d *deriver) deriveReads() error {
	file := func(name string) string { return filepath.Join(d.dir, name) }
	list, err := price.Derive(price.Reports{List: file(listFile), Etcd: file(listEtcdFile), Watch: file(watchFile)}, &price.List{})
	if err != nil {
		return fmt.Errorf("%w: %s", err, reportsHelp)
	}
	for name, s := range map[string]price.Server{kubernetes: list.Stock, millrace: list.Millrace} {
		d.set(name+".request", Constant{
			s.RequestMicros / 1e6, "s", Derived,
			listFile + ": pod-get without its bytes", "a GET or LIST, without its objects",
		})
		d.set(name+".scanned", Constant{
			s.ScannedMicros / 1e6, "s", Derived,
			listFile + ": pods-by-label, for each of all pods", "an object that a LIST looks at",
		})
		d.set(name+".listByte.json", Constant{s.ByteNanos[price.JSON] / 1e9, "s/B", Derived, listFile + ": pods-json",
			"a byte of a LIST as JSON"})
		d.set(name+".listByte.protobuf", Constant{
			s.ByteNanos[price.Protobuf] / 1e9, "s/B", Derived,
			listFile + ": pods-protobuf", "a byte of a LIST as protobuf",
		})
		d.set(name+".initialByte", Constant{
			s.InitialByteNanos / 1e9, "s/B", Measured,
			watchFile + ": watchlist-16", "a byte of initial events, of large objects",
		})
		d.set(name+".open", Constant{s.WatchMicros / 1e6, "s", Measured, watchFile + ": all-h2-20", "opening a watch, without objects"})
	}
	d.set(kubernetes+".etcdGet", Constant{
		list.Stock.EtcdRequestMicros / 1e6, "s", Derived,
		listEtcdFile + ": pod-get, less that from the cache", "a GET that etcd answers, in addition",
	})
	return nil
}

// deriveEncodings sets the prices and ratios of compression and of protobuf.
func (d *deriver) deriveEncodings() error {
	var r price.ListReport
	if err := readReport(d.dir, listFile, &r); err != nil {
		return err
	}
	for _, s := range r.Servers {
		rows := s.Results
		request := d.constants[s.Name+".request"].Value
		for _, encoding := range []string{price.JSON, price.Protobuf} {
			plain, zipped := rows.Workload("pods-"+encoding), rows.Workload("pods-"+encoding+"-gzip")
			if plain.Bytes == 0 || zipped.Bytes == 0 {
				return fmt.Errorf("read report %s: it lacks pods-%s with and without gzip", listFile, encoding)
			}
			d.set(s.Name+".gzipByte."+encoding, Constant{
				max(0, zipped.Server.CPUMillis/1e3-request) / plain.Bytes, "s/B", Derived,
				listFile + ": pods-" + encoding + "-gzip", "a byte of a LIST, before compression",
			})
			d.set(s.Name+".gzipRatio."+encoding, Constant{
				zipped.Bytes / plain.Bytes, "B/B", Measured,
				listFile + ": pods-" + encoding + "-gzip", "a compressed LIST, to a plain one",
			})
		}
		d.set("protobufRatio", Constant{
			rows.Workload("pods-protobuf").Bytes / rows.Workload("pods-json").Bytes, "B/B", Measured,
			listFile + ": pods-protobuf and pods-json", "protobuf, to JSON; of stored objects too",
		})
		if s.Name == millrace {
			d.set(millrace+".eventByte", Constant{
				rows.Workload("pods-json").Server.CPUMillis / 1e3 / rows.Workload("pods-json").Bytes, "s/B", Measured,
				listFile + ": pods-json", "a byte of an event beyond the first 2,436",
			})
		}
	}
	floor := r.Floor.Workload("pods-json")
	d.set(kubernetes+".eventByte", Constant{
		floor.Server.CPUMillis / 1e3 / floor.Bytes, "s/B", Measured,
		listFile + ": Go's server with the same bytes", "a byte of an event beyond the first 2,436",
	})
	return nil
}

// deriveObjects sets the memory of objects: the slope between two clusters of different sizes.
func (d *deriver) deriveObjects() error {
	type point struct{ bytes, memory float64 }
	points := map[string][]point{}
	for _, name := range []string{coldFile, coldLargeFile} {
		var r price.ListReport
		if err := readReport(d.dir, name, &r); err != nil {
			return err
		}
		for _, s := range r.Servers {
			points[s.Name] = append(points[s.Name], point{s.Results.Workload("pods-json").Bytes, s.IdleBytes})
		}
	}
	for server, name := range map[string]string{kubeAPIServer: kubernetes, millrace: millrace} {
		p := points[server]
		if len(p) != 2 || p[1].bytes <= p[0].bytes {
			return fmt.Errorf("read reports %s and %s: they lack two clusters of %s, the second the larger one", coldFile, coldLargeFile, server)
		}
		d.set(name+".objectByte", Constant{
			(p[1].memory - p[0].memory) / (p[1].bytes - p[0].bytes), "B/B", Derived,
			coldFile + " and " + coldLargeFile + ": memory when ready", "memory for a byte of objects as JSON",
		})
	}
	d.set(replica+".objectByte", Constant{
		d.constants[millrace+".objectByte"].Value, "B/B", Derived,
		"millrace.objectByte, whose cache replicas share", "memory for a byte of objects as JSON",
	})
	return nil
}

// deriveDefinitions sets the memory of a definition of a custom resource.
func (d *deriver) deriveDefinitions() error {
	var r definitionReport
	if err := readReport(d.dir, definitionFile, &r); err != nil {
		return err
	}
	for _, s := range r.Servers {
		d.set(s.Name+".definition", Constant{
			(s.Installed.RSSBytes - s.Idle.RSSBytes) / r.Data.CRDs, "B", Measured,
			definitionFile + ": installed, less idle", "memory for a definition of a custom resource",
		})
	}
	d.set(replica+".definition", Constant{
		d.constants[millrace+".definition"].Value, "B", Derived,
		"millrace.definition", "memory for a definition of a custom resource",
	})
	return nil
}

// deriveWatches sets the prices of events, watches and connections at a server.
func (d *deriver) deriveWatches() error {
	var r price.WatchReport
	if err := readReport(d.dir, watchFile, &r); err != nil {
		return err
	}
	for _, s := range r.Servers {
		type row struct{ open, event, rss, watchers, connections float64 }
		rows := map[string]row{}
		for _, x := range s.Results {
			rows[x.Workload] = row{x.Server.OpenMicros / 1e6, x.Server.NetMicros / 1e6, x.Server.RSSBytes, x.Watchers, x.Connections}
		}
		few, many := rows["all-h2-20"], rows["all-h2-1000"]
		little, much := rows["names-1000"], rows["names-8000"]
		if few.watchers == 0 || many.watchers == 0 || little.watchers == 0 || much.watchers == 0 {
			return fmt.Errorf("read report %s: it lacks all-h2-20, all-h2-1000, names-1000 or names-8000 of %s", watchFile, s.Name)
		}
		connection := (many.rss - few.rss) / (many.connections - few.connections)
		d.set(s.Name+".event", Constant{
			many.event, "s", Measured,
			watchFile + ": all-h2-1000, the row with the most connections", "an event to a watcher, each with a connection",
		})
		d.set(s.Name+".handshake", Constant{many.open - few.open, "s", Derived, watchFile + ": all-h2-1000, less all-h2-20", "a new connection"})
		d.set(s.Name+".connection", Constant{connection, "B", Derived, watchFile + ": memory at all-h2-1000, less all-h2-20",
			"memory for a connection"})
		d.set(s.Name+".watch", Constant{
			(much.rss-little.rss)/(much.watchers-little.watchers) - connection*(much.connections-little.connections)/(much.watchers-little.watchers), "B", Derived,
			watchFile + ": memory at names-8000, less names-1000", "memory for a watch",
		})
	}
	return nil
}
