package analyze

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/tool/auditlog"
	"github.com/millrace/millrace/internal/tool/clusterprofile"
	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/interrupt"
	"github.com/millrace/millrace/internal/tool/price"
)

// InputCounts says what was read from an input.
type InputCounts struct {
	auditlog.Input
	auditlog.Counts
}

// InputSums sums the counts of all inputs.
type InputSums struct {
	Inputs      int    `json:"inputs"`
	Bytes       int64  `json:"bytes"`
	Events      uint64 `json:"events"`
	LostRecords int64  `json:"lostRecords"`
}

// maxInputs bounds the inputs that a report names.
const maxInputs = 100

// addInputs adds what was read from all inputs, and the names of the first inputs.
func (r *Report) addInputs(inputs []auditlog.Input, counts []auditlog.Counts) {
	for i := range inputs {
		c := &counts[i]
		r.Run.Read.Inputs++
		r.Run.Read.Bytes += c.Bytes
		r.Run.Read.Events += c.Events
		r.Run.Read.LostRecords += c.LostRecords()
		if i < maxInputs {
			r.Run.Inputs = append(r.Run.Inputs, InputCounts{inputs[i], *c})
		}
	}
	r.Run.InputNotes = auditlog.Notes(inputs, counts)
}

// analysis reads logs and makes a report.
type analysis struct {
	options  *Options
	stdin    io.Reader
	progress *display.Progress
	started  time.Time
	// totalBytes is the size of all inputs whose size is known. doneBytes is the size of the
	// inputs that were read to the end.
	totalBytes, doneBytes int64
}

// run reads all inputs, and returns the report with all rows.
func (a *analysis) run(ctx context.Context, paths []string) (*Report, error) {
	prices, cluster, err := a.load()
	if err != nil {
		return nil, err
	}
	inputs, err := auditlog.Expand(paths)
	if err != nil {
		return nil, err
	}
	c := newCollector()
	r := &Report{}
	for _, in := range inputs {
		a.totalBytes += in.Size
	}
	counts, err := a.readAll(ctx, inputs, c)
	if err != nil {
		return nil, err
	}
	if c.events == 0 {
		return nil, auditlog.NoEventsError(inputs, counts, c.ignored)
	}
	c.finish()
	if a.options.HashNames {
		a.hashNames(c, cluster, prices)
		for i := range inputs {
			inputs[i].Name = fmt.Sprintf("input %d", i+1)
			counts[i].ForgetText()
		}
	}
	r.addInputs(inputs, counts)
	r.Run.VersionSource = a.options.setVersion(c.serverMinors)
	r.fill(c, &model{options: a.options, prices: prices, cluster: newCluster(cluster, c)})
	r.Run.Options, r.Run.Elapsed = *a.options, time.Since(a.started).Seconds()
	r.Run.PricesOf, r.Run.PriceSources = prices.Machine, prices.Sources
	r.Run.Machine = price.Machine{Cores: runtime.NumCPU(), Go: runtime.Version()}
	r.noteProfile(cluster, a.options.HashNames)
	return r, nil
}

// load returns the price list, and the profile or nil.
func (a *analysis) load() (*price.List, *clusterprofile.Profile, error) {
	var cluster *clusterprofile.Profile
	prices, err := price.Default()
	if a.options.Prices != "" {
		prices, err = price.Read(a.options.Prices)
	}
	if err == nil && a.options.Profile != "" {
		cluster, err = clusterprofile.Read(a.options.Profile)
	}
	return prices, cluster, err
}

// hashNames replaces names by hashes in everything from which the report is made.
func (a *analysis) hashNames(c *collector, cluster *clusterprofile.Profile, prices *price.List) {
	if a.options.Salt == "" {
		a.options.Salt = rand.Text()
	}
	h := nameHasher{a.options.Salt}
	encodings := h.hashEncodings(c, a.options.Encodings)
	h.hashCollector(c)
	if cluster != nil {
		h.hashProfile(cluster)
	}
	a.options.Encodings = encodings
	if a.options.Prices != "" {
		prices.Sources = nil // paths have names
	}
	a.options.Profile, a.options.Prices = "", ""
}

// readAll passes the events of all inputs to c. It returns what was read from each input.
func (a *analysis) readAll(ctx context.Context, inputs []auditlog.Input, c *collector) ([]auditlog.Counts, error) {
	defer a.progress.End()
	counts := make([]auditlog.Counts, len(inputs))
	for i, in := range inputs {
		var err error
		options := auditlog.Options{Wrapper: a.options.LogWrapper}
		if counts[i], err = in.Read(ctx, a.stdin, options, c.observe, a.showProgress); err != nil {
			return nil, interrupt.Explain(ctx, err)
		}
		a.doneBytes += in.Size
	}
	return counts, nil
}

// showProgress shows how much was read. bytes were read from the present input.
func (a *analysis) showProgress(bytes int64) {
	bytes += a.doneBytes
	a.progress.Show(func() string {
		text := "read " + display.Size(bytes)
		if a.totalBytes > 0 {
			text += fmt.Sprintf(" of %s (%s)", display.Size(a.totalBytes), display.Percent(float64(bytes)/float64(a.totalBytes)))
		}
		return text + fmt.Sprintf(", %s/s", display.Size(float64(bytes)/time.Since(a.started).Seconds()))
	})
}

// fill sets the parts of the report that follow from the events.
func (r *Report) fill(c *collector, m *model) {
	l := newLedger(c, m)
	r.Seconds = l.period
	if c.first > 0 {
		r.From, r.To = time.UnixMicro(c.first).UTC(), time.UnixMicro(c.last).UTC()
	}
	r.Rest.Requests, r.Rest.Errors = c.dropped.requests+c.dropped.started, c.dropped.errors
	r.Rest.Seconds = c.dropped.seconds()
	r.Total = l.total
	r.Total.add(&r.Rest)
	for client, use := range l.clients {
		r.Clients = append(r.Clients, ClientCost{Client: client, Fleet: use.fleet, Cost: use.cost})
	}
	slices.SortFunc(r.Clients, compareClients)
	for _, row := range l.rows {
		r.Shapes = append(r.Shapes, row.ShapeCost)
	}
	r.Findings, r.Starts = l.findings(), l.starts()
	r.Replica = &c.forecast
	r.Timeline = c.timeline.reportMoments()
	if c.starts.maxHash < math.MaxUint64 {
		r.Notes = append(r.Notes, "Starts are of a sample of the instances, because there are too many instances.")
	}
	if c.questions.maxHash < math.MaxUint64 {
		r.Notes = append(r.Notes, "What a replica would share is derived from a sample of the time, because there are too "+
			"many reads without a version.")
	}
}
