package price

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
)

// List is a price list.
type List struct {
	// Kubernetes is the version that was measured.
	Kubernetes string  `json:"kubernetes"`
	Machine    Machine `json:"machine"`
	// Sources name the reports that the prices are derived from.
	Sources  []string `json:"sources"`
	Stock    Server   `json:"stock"`
	Millrace Server   `json:"millrace"`
}

// Machine is what was measured on.
type Machine struct {
	Cores  int    `json:"cores"`
	CPU    string `json:"cpu,omitempty"`
	Kernel string `json:"kernel,omitempty"`
	Go     string `json:"go"`
}

// Server has the prices of one server, in microseconds of CPU for a thing and nanoseconds
// for a byte.
type Server struct {
	// RequestMicros is for a GET or LIST without its objects, at a server that has other
	// work for a part of the time.
	RequestMicros float64 `json:"requestMicros"`
	// ScannedMicros is for an object in memory that a LIST looks at.
	ScannedMicros float64 `json:"scannedMicros"`
	// ByteNanos is for a byte of the answer before compression, by form.
	ByteNanos map[string]float64 `json:"byteNanos"`
	// EtcdByteNanos is for a byte of an object, as JSON, that is read from etcd for a LIST:
	// etcd's work and the server's. EtcdSentByteNanos is added for objects that are sent.
	// EtcdRequestMicros is for a GET that is answered by etcd.
	EtcdByteNanos     float64 `json:"etcdByteNanos"`
	EtcdSentByteNanos float64 `json:"etcdSentByteNanos"`
	EtcdRequestMicros float64 `json:"etcdRequestMicros"`
	// WatchMicros is for the begin of a watch, EventMicros for one event to one watch.
	WatchMicros float64 `json:"watchMicros"`
	EventMicros float64 `json:"eventMicros"`
	// InitialByteNanos is for a byte of the initial events of a watch.
	InitialByteNanos float64 `json:"initialByteNanos"`
}

// Forms of answers.
const (
	JSON     = "json"
	Protobuf = "protobuf"
	Table    = "table"
)

// Work is what a server has to do for a request, or for many.
type Work struct {
	Requests float64
	// Scanned are objects that a LIST looked at. Bytes are those of answers in a form.
	Scanned float64
	Bytes   float64
	Form    string
	// EtcdBytes are those of objects read from etcd, as JSON, EtcdSentBytes of those of them
	// that were sent. EtcdGets are GETs that went there.
	EtcdBytes, EtcdSentBytes float64
	EtcdGets                 float64
	// Watches began, with InitialBytes of objects, and were sent Events.
	Watches, InitialBytes, Events float64
}

// CPU is the CPU time of work, in seconds.
func (s *Server) CPU(w *Work) float64 {
	micros := s.RequestMicros*w.Requests + s.ScannedMicros*w.Scanned + s.EtcdRequestMicros*w.EtcdGets + s.WatchMicros*w.Watches + s.EventMicros*w.Events
	form := w.Form
	if _, known := s.ByteNanos[form]; !known {
		form = JSON
	}
	nanos := s.ByteNanos[form]*w.Bytes + s.EtcdByteNanos*w.EtcdBytes + s.EtcdSentByteNanos*w.EtcdSentBytes + s.InitialByteNanos*w.InitialBytes
	return micros/1e6 + nanos/1e9
}

//go:embed prices.json
var embedded []byte

// Default returns the price list in the binary.
func Default() (*List, error) { return parse(embedded, "in the binary") }

// Read reads a price list from a file.
func Read(file string) (*List, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read price list: %w", err)
	}
	return parse(data, file)
}

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
