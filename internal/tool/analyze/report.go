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
	// between them, but at least 1.
	From    time.Time `json:"from,omitzero"`
	To      time.Time `json:"to,omitzero"`
	Seconds float64   `json:"seconds"`
	Total   Cost      `json:"total"`
	// Rest is the part of Total by clients and shapes that were too small to be kept.
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
	// VersionSource says where Options.ServerVersion comes from: "flag", "log" or "assumed".
	VersionSource string `json:"versionSource,omitempty"`
	// Inputs are the first inputs. Read has the sums of all inputs.
	Inputs []InputCounts `json:"inputs"`
	Read   InputSums     `json:"read"`
	// InputNotes say what of the inputs was not read, and how events were wrapped.
	InputNotes []string `json:"inputNotes,omitempty"`
	// PricesOf is the machine of the price list. PriceSources are the reports from which the list
	// was derived.
	PricesOf     price.Machine `json:"pricesOf"`
	PriceSources []string      `json:"priceSources"`
	// Elapsed is the time that reading took, in seconds. It is printed, but in no file: the same
	// logs must have the same report.
	Elapsed float64 `json:"-"`
}

// Cost is the cost of requests. CPU is in seconds: an estimate for kube-apiserver.
type Cost struct {
	serverreport.ListCost
	Errors uint64 `json:"errors,omitempty"`
	// TierCPU is in seconds: an estimate for a replica that answers the reads instead. The reads
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

// Moment counts the requests of the part of the period that starts at Time.
type Moment struct {
	Time     time.Time `json:"time"`
	Requests uint64    `json:"requests"`
	Lists    uint64    `json:"lists"`
	Watches  uint64    `json:"watches"`
}

// CPUShare returns the mean number of processors that the reads use.
func (r *Report) CPUShare() float64 { return r.Total.CPU / r.Seconds }

// compareClients orders by CPU, the most expensive first.
func compareClients(a, b ClientCost) int {
	return cmp.Or(cmp.Compare(b.CPU, a.CPU), cmp.Compare(b.Requests, a.Requests),
		cmp.Compare(a.Name(), b.Name()), cmp.Compare(a.UserAgent, b.UserAgent))
}
