package analyze

import (
	"cmp"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/price"
)

// Report is the result of an analysis. "-o json" prints it.
type Report struct {
	Run Run `json:"run"`
	// From and To are the times of the first and the last request, and Seconds is the time
	// between them.
	From    time.Time `json:"from,omitzero"`
	To      time.Time `json:"to,omitzero"`
	Seconds float64   `json:"seconds"`
	Total   Cost      `json:"total"`
	// Rest is the part of Total that belongs to clients and shapes that were too small to be
	// kept.
	Rest Cost `json:"rest"`
	// Replica is the forecast of the reads at a replica, nil if it is unknown.
	Replica  *Forecast    `json:"replica,omitempty"`
	Findings []Finding    `json:"findings"`
	Clients  []ClientCost `json:"clients"`
	Shapes   []ShapeCost  `json:"shapes"`
	Starts   []Start      `json:"starts"`
	Timeline []Moment     `json:"timeline,omitempty"`
	Notes    []string     `json:"notes,omitempty"`
}

// Run says how the report was made. The same arguments with the same files make it again.
type Run struct {
	Millrace  string        `json:"millrace"`
	Arguments []string      `json:"arguments"`
	Machine   price.Machine `json:"machine"`
	Options   Options       `json:"options"`
	Inputs    []InputCounts `json:"inputs"`
	// PricesOf is the machine of the price list. PriceSources are the reports from which the list
	// was derived.
	PricesOf     price.Machine `json:"pricesOf"`
	PriceSources []string      `json:"priceSources"`
	// Elapsed is the time that reading took, in seconds. It is printed, but in no file: the same
	// logs must have the same report.
	Elapsed float64 `json:"-"`
}

// Cost is the cost of requests. CPU is an estimate for kube-apiserver, in seconds.
type Cost struct {
	serverreport.ListCost
	Errors uint64 `json:"errors,omitempty"`
	// TierCPU is an estimate for a replica that answers the same reads, in seconds. The reads
	// then cost the API server nothing.
	TierCPU float64 `json:"tierCPU"`
}

func (c *Cost) add(d *Cost) {
	c.ListCost.Add(&d.ListCost)
	c.Errors += d.Errors
	c.TierCPU += d.TierCPU
}

// ClientCost is the cost of a client.
type ClientCost struct {
	serverreport.Client
	// Fleet is the number of instances: pods, nodes or addresses.
	Fleet int `json:"fleet"`
	Cost
}

// ShapeCost is the cost of a client's requests of one shape.
type ShapeCost struct {
	serverreport.Client
	SentShape
	Fleet int `json:"fleet"`
	Cost
	// Gone, Throttled and Failed count answers with 410, 429 and 5xx.
	Gone      uint64 `json:"gone,omitempty"`
	Throttled uint64 `json:"throttled,omitempty"`
	Failed    uint64 `json:"failed,omitempty"`
	// MeanSeconds is the mean duration of the watches that ended.
	MeanSeconds float64 `json:"meanSeconds,omitempty"`
}

// Finding is a habit of a client that costs more than necessary.
type Finding struct {
	// Kind is a word to search for, as in "polling". docs/guides/analyze.md explains each.
	Kind string `json:"kind"`
	serverreport.Client
	Resource string `json:"resource"`
	Fleet    int    `json:"fleet"`
	// Also are further collections with the same habit, which the same repair ends.
	Also []string `json:"also,omitempty"`
	// Sentence says what the client does. Why says what that costs.
	Sentence string `json:"sentence"`
	Why      string `json:"why"`
	// Request is an example of the requests. Instead is the request that should replace it, ""
	// if none does. Setting is what to change in the client.
	Request string `json:"request"`
	Instead string `json:"instead,omitempty"`
	Setting string `json:"setting"`
	// Cost is the cost of these requests. SavedCPU, in seconds, and SavedBytes are the parts that
	// the repair saves.
	Cost       Cost    `json:"cost"`
	SavedCPU   float64 `json:"savedCPU"`
	SavedBytes float64 `json:"savedBytes"`
	// FlowSchema is the YAML of a FlowSchema and a PriorityLevelConfiguration that bound the
	// client until it is repaired. It is "" for a client that must not be bounded.
	FlowSchema string `json:"flowSchema,omitempty"`

	source     string // of the objects: "cache", "etcd" or both
	collection string // its name in sentences
	shapeCount int    // of the rows that the finding sums
	watches    watchSums
}

// watchSums has sums over the rows of a finding on watches.
type watchSums struct {
	began, ended, gone uint64
	// seconds is the sum of the durations of watches that ended.
	seconds float64
	// beginCPU is the CPU of the beginnings of the watches, in seconds.
	beginCPU float64
	// relists counts LISTs of the same collection, without the first of each instance.
	relists float64
}

func (w *watchSums) add(x *watchSums) {
	w.began += x.began
	w.ended += x.ended
	w.gone += x.gone
	w.seconds += x.seconds
	w.beginCPU += x.beginCPU
	w.relists += x.relists
}

// Start is the cost of a start of one instance of a client, and of a start of all instances.
type Start struct {
	serverreport.Client
	Fleet int `json:"fleet"`
	// Seen is the number of starts in the log. Cost is the mean cost of one start.
	Seen     int       `json:"seen"`
	Cost     Cost      `json:"cost"`
	Requests []Request `json:"requests"`
	// FleetCPU, in seconds, and FleetBytes are the cost of a start of the whole fleet. AtOnce is
	// the time, in seconds, for which a server with Options.Cores is busy if all start together.
	FleetCPU   float64 `json:"fleetCPU"`
	FleetBytes float64 `json:"fleetBytes"`
	AtOnce     float64 `json:"atOnce"`
	// PerMinute is the most starts a minute that keep the server below Options.MaxCPU, and that
	// are no more than a tenth of the fleet. Spread is the time in which the fleet then starts, in
	// seconds.
	PerMinute float64 `json:"perMinute"`
	Spread    float64 `json:"spread"`
	Advice    string  `json:"advice"`
}

// Request is a request that an instance sends when it starts.
type Request struct {
	SentShape
	// PerStart is the mean number of these requests in one start.
	PerStart float64 `json:"perStart"`
	// Cost is the cost of PerStart requests.
	Cost Cost `json:"cost"`
}

// Moment counts the requests of a part of the period, which begins at Time.
type Moment struct {
	Time     time.Time `json:"time"`
	Requests uint64    `json:"requests"`
	Lists    uint64    `json:"lists"`
	Watches  uint64    `json:"watches"`
}

// compareClients orders by CPU, the most expensive first.
func compareClients(a, b ClientCost) int {
	return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Name(), b.Name()), cmp.Compare(a.UserAgent, b.UserAgent))
}
