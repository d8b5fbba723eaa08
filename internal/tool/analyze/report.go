package analyze

import (
	"cmp"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/price"
)

// Report is all that an analysis has found. "-o json" prints it.
type Report struct {
	Run Run `json:"run"`
	// From and To are the times of the first and the last request, Seconds is the time
	// between.
	From    time.Time `json:"from,omitzero"`
	To      time.Time `json:"to,omitzero"`
	Seconds float64   `json:"seconds"`
	Total   Cost      `json:"total"`
	// Rest is the part of Total of clients and shapes that were too small to be kept.
	Rest Cost `json:"rest"`
	// Replica is what would become of the reads behind one, nil if that is not known.
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
	// PricesOf is the machine of the price list, PriceSources are the reports behind it.
	PricesOf     price.Machine `json:"pricesOf"`
	PriceSources []string      `json:"priceSources"`
	// Elapsed is how long reading took, in seconds. It is told, and kept in no file: the same
	// logs have the same report.
	Elapsed float64 `json:"-"`
}

// Cost is what requests cost. CPU is the stock server's, an estimate.
type Cost struct {
	serverreport.ListCost
	Errors uint64 `json:"errors,omitempty"`
	// TierCPU is what a replica in front would need for the same reads, in seconds. They
	// would then cost the API server nothing.
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
	// MeanSeconds is how long a watch lasted.
	MeanSeconds float64 `json:"meanSeconds,omitempty"`
}

// Finding is something that a client does, and that would cost less done otherwise.
type Finding struct {
	// Kind is a word to search for, as in "polling". docs/guides/analyze.md explains each.
	Kind string `json:"kind"`
	serverreport.Client
	Resource string `json:"resource"`
	Fleet    int    `json:"fleet"`
	// Also are further collections, of which the same holds, and which the same repair ends.
	Also []string `json:"also,omitempty"`
	// Sentence says what happens, Why what it costs.
	Sentence string `json:"sentence"`
	Why      string `json:"why"`
	// Request is an example as it is sent, Instead as it should be. Setting is what to
	// change in the client.
	Request string `json:"request"`
	Instead string `json:"instead,omitempty"`
	Setting string `json:"setting"`
	// Cost is that of these requests, SavedCPU and SavedBytes are the part that would be
	// saved.
	Cost       Cost    `json:"cost"`
	SavedCPU   float64 `json:"savedCPU"`
	SavedBytes float64 `json:"savedBytes"`
	// FlowSchema is a FlowSchema and a PriorityLevelConfiguration that bound the client
	// until it is repaired.
	FlowSchema string `json:"flowSchema,omitempty"`

	// source is where the objects come from, and what names the collection.
	source, what string
	// shapes are how many rows the finding sums, watches is what is told of those.
	shapes  int
	watches watchSums
}

// watchSums are sums over the rows of a finding on watches.
type watchSums struct {
	began, ended, gone uint64
	// seconds is how long those lasted that ended.
	seconds float64
	// beginCPU is the part of the CPU that beginning them took.
	beginCPU float64
	// relists are LISTs of the same collection after the first of each instance.
	relists float64
}

func (w *watchSums) add(x *watchSums) {
	w.began, w.ended, w.gone = w.began+x.began, w.ended+x.ended, w.gone+x.gone
	w.seconds, w.beginCPU, w.relists = w.seconds+x.seconds, w.beginCPU+x.beginCPU, w.relists+x.relists
}

// Start is what the start of one instance of a client costs, and a start of all.
type Start struct {
	serverreport.Client
	Fleet int `json:"fleet"`
	// Seen is how many starts the log has. Cost is that of one start.
	Seen     int       `json:"seen"`
	Cost     Cost      `json:"cost"`
	Requests []Request `json:"requests"`
	// FleetCPU and FleetBytes are those of a start of the whole fleet. AtOnce is how long a
	// server with Options.Cores is busy if all start together.
	FleetCPU   float64 `json:"fleetCPU"`
	FleetBytes float64 `json:"fleetBytes"`
	AtOnce     float64 `json:"atOnce"`
	// PerMinute is the number of starts a minute that keeps the server below
	// Options.MaxCPU, and a tenth of the fleet. Spread is how long the fleet then takes, in
	// seconds.
	PerMinute float64 `json:"perMinute"`
	Spread    float64 `json:"spread"`
	Advice    string  `json:"advice"`
}

// Request is a request that an instance sends when it starts.
type Request struct {
	SentShape
	// PerStart is how often a start sends it.
	PerStart float64 `json:"perStart"`
	// Cost is that of one start.
	Cost Cost `json:"cost"`
}

// Moment is a part of the period.
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
