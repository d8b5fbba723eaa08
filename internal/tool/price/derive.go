package price

import (
	"fmt"

	"github.com/millrace/millrace/internal/tool/render"
)

// Reports are files of "millrace-lab bench … -o json" with both servers.
type Reports struct {
	// List is of "bench list --compare" with its default workloads.
	List string
	// Etcd is of "bench list" of the stock server without a watch cache for pods. Watch is
	// of "bench watch --compare". Without them, their prices are those of defaults.
	Etcd, Watch string
	// Paced is of "bench list --compare" with --every: of clients that wait between requests.
	Paced string
}

// names of servers in reports.
const (
	millraceName = "millrace"
	stockName    = "kubernetes"
)

// Derive makes a price list. defaults has the prices that reports do not tell.
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
	for _, further := range []struct {
		file   string
		derive func(file string) error
	}{{files.Etcd, l.deriveEtcd}, {files.Watch, l.deriveWatches}, {files.Paced, l.derivePaced}} {
		if further.file == "" {
			continue
		}
		if err := further.derive(further.file); err != nil {
			return nil, err
		}
		l.Sources = append(l.Sources, further.file)
	}
	l.round()
	return l, nil
}

func (l *List) servers() map[string]*Server {
	return map[string]*Server{millraceName: &l.Millrace, stockName: &l.Stock}
}

// derive sets the prices of reads from the cache.
//
//	request   a GET, without its bytes
//	byte      a LIST of all pods in the form, without the request
//	scanned   a LIST by label, without the request and its bytes: it looks at all pods
//	table     a page as Table, without the request, and the scan of all pods behind it
func (s *Server) derive(m ListResults) error {
	for _, workload := range []string{"pods-json", "pods-protobuf", "pods-by-label", "pods-table", "pod-get"} {
		if m.micros(workload) <= 0 {
			return fmt.Errorf("the report has no CPU of the workload %s", workload)
		}
	}
	all := m.Of("pods-json")
	perByte := (m.micros("pods-json") - m.micros("pod-get")) / (all.Bytes - m.Of("pod-get").Bytes)
	s.RequestMicros = m.micros("pod-get") - perByte*m.Of("pod-get").Bytes
	byLabel := m.Of("pods-by-label")
	s.ScannedMicros = max(0, m.micros("pods-by-label")-s.RequestMicros-perByte*byLabel.Bytes) / all.Items
	protobuf, table := m.Of("pods-protobuf"), m.Of("pods-table")
	s.ByteNanos = map[string]float64{
		JSON:     1000 * perByte,
		Protobuf: 1000 * (m.micros("pods-protobuf") - s.RequestMicros) / protobuf.Bytes,
		Table:    1000 * max(0, m.micros("pods-table")-s.RequestMicros-s.ScannedMicros*all.Items) / table.Bytes,
	}
	return nil
}

// deriveEtcd sets the stock server's prices of reads from etcd, out of a report of a server
// without a watch cache: a LIST of one node's pods reads all pods, a LIST of all sends them,
// and a GET reads one.
func (l *List) deriveEtcd(file string) error {
	var r ListReport
	if err := render.ReadReport(file, &r); err != nil {
		return err
	}
	m := r.server(stockName).Results
	all, node := m.Of("pods-json"), m.Of("pods-of-node")
	if all.Bytes <= 0 || m.micros("pods-of-node") <= 0 || m.micros("pod-get") <= 0 {
		return fmt.Errorf("derive prices of etcd from %s: the report has no CPU of pods-json, pods-of-node and pod-get", file)
	}
	s := &l.Stock
	s.EtcdByteNanos = 1000*max(0, m.micros("pods-of-node")-s.RequestMicros)/all.Bytes - s.ByteNanos[JSON]*node.Bytes/all.Bytes
	s.EtcdSentByteNanos = 1000*max(0, m.micros("pods-json")-s.RequestMicros)/all.Bytes - s.ByteNanos[JSON] - s.EtcdByteNanos
	s.EtcdRequestMicros = max(0, m.micros("pod-get")-s.RequestMicros-s.ByteNanos[JSON]*m.Of("pod-get").Bytes/1000)
	return nil
}

// derivePaced sets the price of a request anew: a server that is idle between two requests
// has to be woken for each. The prices of the other reports, of clients that ask without a
// pause, are derived with the price of a request in these.
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
		s.RequestMicros = max(0, m.micros("pod-get")-s.ByteNanos[JSON]*m.Of("pod-get").Bytes/1000)
	}
	return nil
}

// deriveWatches sets prices of watches: of a thousand watches over twenty connections, and
// of sixteen watch-list informers.
func (l *List) deriveWatches(file string) error {
	var r WatchReport
	if err := render.ReadReport(file, &r); err != nil {
		return err
	}
	servers := l.servers()
	for _, s := range r.Servers {
		into := servers[s.Name]
		if into == nil {
			continue
		}
		for _, x := range s.Results {
			if x.Workload == "all-h2-20" {
				into.WatchMicros, into.EventMicros = x.Server.OpenMicros, x.Server.NetMicros
			}
		}
		for _, x := range s.Informers {
			if x.Workload == "watchlist-16" {
				into.InitialByteNanos = x.MillisPerMB
			}
		}
	}
	return nil
}

func (l *List) round() {
	for _, s := range l.servers() {
		for _, v := range []*float64{&s.RequestMicros, &s.ScannedMicros, &s.EtcdByteNanos, &s.EtcdSentByteNanos, &s.EtcdRequestMicros, &s.WatchMicros, &s.EventMicros, &s.InitialByteNanos} {
			*v = ThreeDigits(*v)
		}
		for form, v := range s.ByteNanos {
			s.ByteNanos[form] = ThreeDigits(v)
		}
	}
}
