package price

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
)

// List is a price list: the prices of two servers on one machine.
type List struct {
	// Kubernetes is the version of Kubernetes that was measured.
	Kubernetes string  `json:"kubernetes"`
	Machine    Machine `json:"machine"`
	// Sources are the files of the reports from which the prices are derived.
	Sources  []string `json:"sources"`
	Stock    Server   `json:"stock"`
	Millrace Server   `json:"millrace"`
}

// Machine is the machine on which a server was measured.
type Machine struct {
	Cores  int    `json:"cores"`
	CPU    string `json:"cpu,omitempty"`
	Kernel string `json:"kernel,omitempty"`
	Go     string `json:"go"`
}

// Server has the prices of one server: microseconds of CPU for a request, an object or an event,
// and nanoseconds of CPU for a byte.
type Server struct {
	// RequestMicros is for a GET or LIST without its objects, at a server that is idle between
	// some of its requests.
	RequestMicros float64 `json:"requestMicros"`
	// ScannedMicros is for an object in memory that a LIST looks at.
	ScannedMicros float64 `json:"scannedMicros"`
	// ByteNanos is for a byte of the answer before compression, by encoding.
	ByteNanos map[string]float64 `json:"byteNanos"`
	// EtcdByteNanos is for a byte of an object, as JSON, that a LIST reads from etcd: the work of
	// etcd and of the server. EtcdSentByteNanos is added for objects that are sent.
	// EtcdRequestMicros is for a GET that etcd answers.
	EtcdByteNanos     float64 `json:"etcdByteNanos"`
	EtcdSentByteNanos float64 `json:"etcdSentByteNanos"`
	EtcdRequestMicros float64 `json:"etcdRequestMicros"`
	// WatchMicros is for the start of a watch, and EventMicros for one event to one watch.
	WatchMicros float64 `json:"watchMicros"`
	EventMicros float64 `json:"eventMicros"`
	// InitialByteNanos is for a byte of the initial events of a watch.
	InitialByteNanos float64 `json:"initialByteNanos"`
}

// Encodings of answers.
const (
	JSON     = "json"
	Protobuf = "protobuf"
	Table    = "table"
)

// Work is the work of a server for one request or for many. All numbers are sums.
type Work struct {
	Requests float64
	// Scanned is the number of objects in memory that LISTs look at.
	Scanned float64
	// Bytes is the size of the answers before compression, and Encoding is their encoding. An
	// unknown encoding has the prices of JSON.
	Bytes    float64
	Encoding string
	// EtcdBytes is the size, as JSON, of the objects that are read from etcd. EtcdSentBytes is
	// the size of those among them that are sent. EtcdGets is the number of GETs that etcd
	// answers.
	EtcdBytes, EtcdSentBytes, EtcdGets float64
	// Watches is the number of watches that begin, InitialBytes the size of their initial
	// events, and Events the number of the further events.
	Watches, InitialBytes, Events float64
}

// CPU returns the CPU time of work, in seconds.
func (s *Server) CPU(w *Work) float64 {
	micros := s.RequestMicros*w.Requests + s.ScannedMicros*w.Scanned + s.EtcdRequestMicros*w.EtcdGets +
		s.WatchMicros*w.Watches + s.EventMicros*w.Events
	encoding := w.Encoding
	if _, known := s.ByteNanos[encoding]; !known {
		encoding = JSON
	}
	nanos := s.ByteNanos[encoding]*w.Bytes + s.EtcdByteNanos*w.EtcdBytes + s.EtcdSentByteNanos*w.EtcdSentBytes +
		s.InitialByteNanos*w.InitialBytes
	return micros/1e6 + nanos/1e9
}

//go:embed prices.json
var embedded []byte

// Default returns the price list in the binary.
func Default() (*List, error) { return parse(embedded, "in the binary") }

// Read returns the price list in a file.
func Read(file string) (*List, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read price list: %w", err)
	}
	return parse(data, file)
}

// parse decodes a price list and checks that it has prices. name is for errors.
func parse(data []byte, name string) (*List, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var l List
	if err := d.Decode(&l); err != nil {
		return nil, fmt.Errorf("read price list %s (it must be what millrace-tools analyze prices printed): %w", name, err)
	}
	if l.Stock.RequestMicros <= 0 || l.Stock.ByteNanos[JSON] <= 0 {
		return nil, fmt.Errorf("read price list %s: it has no price of a request or of a byte", name)
	}
	return &l, nil
}
