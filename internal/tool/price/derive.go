package price

import (
	"fmt"

	"github.com/millrace/millrace/internal/tool/render"
)

// Reports names files that "millrace-lab bench … -o json" has printed. Only List is required. The
// default prices stand in for the reports that are missing.
type Reports struct {
	// List is a report of "bench list --compare" with its default workloads.
	List string
	// Etcd is a report of "bench list" on a stock server without a watch cache for pods.
	Etcd string
	// Watch is a report of "bench watch --compare".
	Watch string
	// Paced is a report of "bench list --compare --every", whose clients pause between requests.
	Paced string
}

// Names of servers in reports.
const (
	millraceName = "millrace"
	stockName    = "kubernetes"
)

// Derive returns the price list that follows from reports. defaults has the prices that they
// lack.
func Derive(files Reports, defaults *List) (*List, error) {
	l := &List{Stock: defaults.Stock, Millrace: defaults.Millrace}
	var list ListReport
	if err := render.ReadReport(files.List, &list); err != nil {
		return nil, err
	}
	l.Machine, l.Sources = list.Machine, []string{files.List}
	servers := l.servers()
	for _, name := range []string{millraceName, stockName} {
		measured := list.server(name)
		if err := servers[name].derive(measured.Results); err != nil {
			return nil, fmt.Errorf("derive prices of %s from %s: %w", name, files.List, err)
		}
		l.Kubernetes = measured.Version
	}
	for _, optional := range []struct {
		file   string
		derive func(file string) error
	}{{files.Etcd, l.deriveEtcd}, {files.Watch, l.deriveWatches}, {files.Paced, l.derivePaced}} {
		if optional.file == "" {
			continue
		}
		if err := optional.derive(optional.file); err != nil {
			return nil, err
		}
		l.Sources = append(l.Sources, optional.file)
	}
	l.round()
	return l, nil
}

// servers returns the servers of the list by their names in reports.
func (l *List) servers() map[string]*Server {
	return map[string]*Server{millraceName: &l.Millrace, stockName: &l.Stock}
}

// derive sets the prices of reads from the cache. Each is the CPU of a workload, less what is
// already priced.
//
//	request   a GET, less its bytes
//	byte      a LIST of all pods in the encoding, less the request
//	scanned   a LIST by label, which looks at all pods, less the request and its bytes
//	table     a page as a table, less the request and the scan of all pods for it
func (s *Server) derive(m ListResults) error {
	for _, workload := range []string{"pods-json", "pods-protobuf", "pods-by-label", "pods-table", "pod-get"} {
		if m.micros(workload) <= 0 {
			return fmt.Errorf("the report has no CPU of the workload %s", workload)
		}
	}
	all := m.Workload("pods-json")
	perByte := (m.micros("pods-json") - m.micros("pod-get")) / (all.Bytes - m.Workload("pod-get").Bytes)
	s.RequestMicros = m.micros("pod-get") - perByte*m.Workload("pod-get").Bytes
	byLabel := m.Workload("pods-by-label")
	s.ScannedMicros = max(0, m.micros("pods-by-label")-s.RequestMicros-perByte*byLabel.Bytes) / all.Items
	protobuf, table := m.Workload("pods-protobuf"), m.Workload("pods-table")
	s.ByteNanos = map[string]float64{
		JSON:     1000 * perByte,
		Protobuf: 1000 * (m.micros("pods-protobuf") - s.RequestMicros) / protobuf.Bytes,
		Table:    1000 * max(0, m.micros("pods-table")-s.RequestMicros-s.ScannedMicros*all.Items) / table.Bytes,
	}
	return nil
}

// deriveEtcd sets the stock server's prices of reads from etcd. The report is of a server without a
// watch cache. There a LIST of one node's pods reads all pods, a LIST of all pods also sends all,
// and a GET reads one.
func (l *List) deriveEtcd(file string) error {
	var r ListReport
	if err := render.ReadReport(file, &r); err != nil {
		return err
	}
	m := r.server(stockName).Results
	all, node := m.Workload("pods-json"), m.Workload("pods-of-node")
	if all.Bytes <= 0 || m.micros("pods-of-node") <= 0 || m.micros("pod-get") <= 0 {
		return fmt.Errorf("derive prices of etcd from %s: the report has no CPU of pods-json, pods-of-node and pod-get", file)
	}
	s := &l.Stock
	s.EtcdByteNanos = 1000*max(0, m.micros("pods-of-node")-s.RequestMicros)/all.Bytes - s.ByteNanos[JSON]*node.Bytes/all.Bytes
	s.EtcdSentByteNanos = 1000*max(0, m.micros("pods-json")-s.RequestMicros)/all.Bytes - s.ByteNanos[JSON] - s.EtcdByteNanos
	s.EtcdRequestMicros = max(0, m.micros("pod-get")-s.RequestMicros-s.ByteNanos[JSON]*m.Workload("pod-get").Bytes/1000)
	return nil
}

// derivePaced replaces the price of a request: a server that is idle between two requests has to
// wake up for each. Derive calls it last. Clients of the other reports make no pauses, so their
// prices are derived with the price of a request in those reports.
func (l *List) derivePaced(file string) error {
	var r ListReport
	if err := render.ReadReport(file, &r); err != nil {
		return err
	}
	for name, s := range l.servers() {
		m := r.server(name).Results
		if m.micros("pod-get") <= 0 {
			return fmt.Errorf("derive the price of a request to %s from %s: the report has no CPU of pod-get", name, file)
		}
		s.RequestMicros = max(0, m.micros("pod-get")-s.ByteNanos[JSON]*m.Workload("pod-get").Bytes/1000)
	}
	return nil
}

// deriveWatches sets the prices of watches. The workload all-h2-20 has a thousand watches over
// twenty connections, and watchlist-16 has sixteen informers that begin with a watch-list.
func (l *List) deriveWatches(file string) error {
	var r WatchReport
	if err := render.ReadReport(file, &r); err != nil {
		return err
	}
	servers := l.servers()
	for _, s := range r.Servers {
		priced := servers[s.Name]
		if priced == nil {
			continue
		}
		for _, x := range s.Results {
			if x.Workload == "all-h2-20" {
				priced.WatchMicros, priced.EventMicros = x.Server.OpenMicros, x.Server.NetMicros
			}
		}
		for _, x := range s.Informers {
			if x.Workload == "watchlist-16" {
				priced.InitialByteNanos = x.MillisPerMB // 1 ms/MB is 1 ns/B
			}
		}
	}
	return nil
}

// round rounds all prices to three digits.
func (l *List) round() {
	for _, s := range l.servers() {
		for _, v := range []*float64{
			&s.RequestMicros, &s.ScannedMicros, &s.EtcdByteNanos, &s.EtcdSentByteNanos, &s.EtcdRequestMicros, &s.WatchMicros, &s.EventMicros, &s.InitialByteNanos,
		} {
			*v = ThreeDigits(*v)
		}
		for encoding, v := range s.ByteNanos {
			s.ByteNanos[encoding] = ThreeDigits(v)
		}
	}
}
