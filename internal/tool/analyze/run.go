package analyze

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/tool/auditlog"
	"github.com/millrace/millrace/internal/tool/clusterprofile"
	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/interrupt"
	"github.com/millrace/millrace/internal/tool/price"
)

// InputCounts say what was read of an input.
type InputCounts struct {
	auditlog.Input
	auditlog.Counts
}

const maxInputs = 100

// analysis reads logs and makes a report.
type analysis struct {
	options  *Options
	stdin    io.Reader
	progress *display.Progress
	// started is when it began.
	started time.Time
	// total are the bytes of all inputs, 0 if that is not known. done are those of inputs that
	// were read.
	total, done int64
}

// run reads all inputs. The report has all rows.
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
		a.total += in.Size
	}
	all, err := a.read(ctx, inputs, c)
	if err != nil {
		return nil, err
	}
	for i := range inputs {
		r.Run.Inputs = append(r.Run.Inputs, InputCounts{inputs[i], all[i]})
	}
	if c.events == 0 {
		return nil, auditlog.NoEvents(inputs, all, c.others)
	}
	if a.options.HashNames {
		a.hashNames(c, cluster, prices, r)
	}
	for i := range r.Run.Inputs {
		in := &r.Run.Inputs[i]
		if a.options.HashNames {
			in.Counts.ForgetText()
		}
		r.Notes = append(r.Notes, in.Notes(in.Name)...)
	}
	r.fill(c, &model{options: a.options, prices: prices, cluster: newCluster(cluster, c)})
	r.Run.Options, r.Run.Elapsed = *a.options, time.Since(a.started).Seconds()
	r.Run.PricesOf, r.Run.PriceSources = prices.Machine, prices.Sources
	r.Run.Machine = price.Machine{Cores: runtime.NumCPU(), Go: runtime.Version()}
	r.noteProfile(cluster, a.options.HashNames)
	return r, nil
}

// load reads the price list and the profile. The profile is nil if there is none.
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

// hashNames hashes names in all that reports are made of.
func (a *analysis) hashNames(c *collector, cluster *clusterprofile.Profile, prices *price.List, r *Report) {
	if a.options.Salt == "" {
		a.options.Salt = rand.Text()
	}
	h := nameHasher{a.options.Salt}
	forms := h.forms(c, a.options.Forms)
	h.collector(c)
	if cluster != nil {
		h.profile(cluster)
	}
	a.options.Forms = forms
	if a.options.Prices != "" {
		prices.Sources = nil // paths of whoever made the list
	}
	a.options.Profile, a.options.Prices = "", ""
	for i := range r.Run.Inputs {
		r.Run.Inputs[i].Name = fmt.Sprintf("input %d", i+1)
	}
}

func (a *analysis) read(ctx context.Context, inputs []auditlog.Input, c *collector) ([]auditlog.Counts, error) {
	defer a.progress.End()
	all := make([]auditlog.Counts, len(inputs))
	for i, in := range inputs {
		var err error
		if all[i], err = in.Read(ctx, a.stdin, auditlog.Options{Form: a.options.LogForm}, c.observe, a.tell); err != nil {
			return nil, interrupt.Explain(ctx, err)
		}
		a.done += in.Size
	}
	return all, nil
}

// tell says that so many bytes of the present input were read.
func (a *analysis) tell(bytes int64) {
	bytes += a.done
	a.progress.Show(func() string {
		text := "read " + display.Size(bytes)
		if a.total > 0 {
			text += fmt.Sprintf(" of %s (%s)", display.Size(a.total), display.Percent(float64(bytes)/float64(a.total)))
		}
		return text + fmt.Sprintf(", %s/s", display.Size(float64(bytes)/time.Since(a.started).Seconds()))
	})
}

func (r *Report) fill(c *collector, m *model) {
	l := newLedger(c, m)
	r.Seconds = l.period
	if c.first > 0 {
		r.From, r.To = time.UnixMicro(c.first).UTC(), time.UnixMicro(c.last).UTC()
	}
	r.Rest.Requests, r.Rest.Errors, r.Rest.Seconds = c.dropped.requests+c.dropped.started, c.dropped.errors, c.dropped.seconds()
	r.Total = l.total
	r.Total.add(&r.Rest)
	for who, use := range l.clients {
		r.Clients = append(r.Clients, ClientCost{Client: who, Fleet: use.fleet, Cost: use.cost})
	}
	slices.SortFunc(r.Clients, compareClients)
	for _, row := range l.rows {
		r.Shapes = append(r.Shapes, row.ShapeCost)
	}
	r.Findings, r.Starts = l.findings(), l.startsOf()
	r.Replica = &c.forecasts
	r.Timeline = c.timeline.report()
	if len(r.Run.Inputs) > maxInputs {
		r.Notes = append(r.Notes, fmt.Sprintf("Of %d inputs the first %d are named.", len(r.Run.Inputs), maxInputs))
		r.Run.Inputs = r.Run.Inputs[:maxInputs]
	}
}
