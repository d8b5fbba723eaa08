package analyze

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
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
	Events uint64 `json:"events"`
	// Malformed lines are no JSON objects, are cut off, or have an event without a time.
	// FirstMalformed is the number of the first one.
	Malformed      int64 `json:"malformed,omitempty"`
	FirstMalformed int64 `json:"firstMalformed,omitempty"`
}

// maxInputs bounds the inputs in a report.
const maxInputs = 100

// analysis reads logs and makes a report.
type analysis struct {
	options  *Options
	stdin    io.Reader
	progress *progress
	// started is when it began.
	started time.Time
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
		a.progress.total += in.Size
	}
	for _, in := range inputs {
		counts, err := a.read(ctx, in, c)
		if err != nil {
			return nil, err
		}
		r.Run.Inputs = append(r.Run.Inputs, counts)
	}
	a.progress.line.End()
	if c.events == 0 {
		return nil, fmt.Errorf("no audit events in %s: give logs that kube-apiserver wrote with --audit-log-path (audit.k8s.io/v1, a JSON event on each line)", strings.Join(paths, ", "))
	}
	if a.options.HashNames {
		a.hashNames(c, cluster, prices, r)
	}
	for i := range r.Run.Inputs {
		r.noteInput(&r.Run.Inputs[i])
	}
	r.fill(c, &model{options: a.options, prices: prices, cluster: newCluster(cluster, c)})
	r.Run.Options, r.Run.Elapsed = *a.options, time.Since(a.started).Seconds()
	r.Run.PricesOf, r.Run.PriceSources = prices.Machine, prices.Sources
	r.Run.Machine = price.Machine{Cores: runtime.NumCPU(), Go: runtime.Version()}
	r.Run.Started = a.started.UTC().Truncate(time.Second)
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
	h.collector(c)
	if cluster != nil {
		h.profile(cluster)
	}
	forms := map[string]string{}
	for program, form := range a.options.Forms {
		forms[h.client(serverreport.Client{UserAgent: program}).UserAgent] = form
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

// read reads one input.
func (a *analysis) read(ctx context.Context, in auditlog.Input, c *collector) (InputCounts, error) {
	counts := InputCounts{Input: in}
	var scanner auditlog.Scanner
	before, line, whole := c.events, int64(0), true
	observe := func(e *auditlog.Event) {
		if e.Time() == 0 {
			whole = false
			return
		}
		c.observe(e)
	}
	var err error
	counts.Counts, err = in.Read(ctx, a.stdin, func(text []byte) {
		line++
		whole = true
		if err := scanner.Scan(text, observe); err != nil || !whole {
			if counts.Malformed++; counts.Malformed == 1 {
				counts.FirstMalformed = line
			}
		}
	}, a.progress.set)
	a.progress.next(in.Size)
	counts.Events = c.events - before
	if errors.Is(err, context.Canceled) {
		return counts, interrupt.Explain(ctx, err)
	}
	return counts, err
}

// noteInput notes what could not be read.
func (r *Report) noteInput(in *InputCounts) {
	name := display.Clean(in.Name)
	if in.CutOff {
		r.Notes = append(r.Notes, fmt.Sprintf("%s is cut off: what comes before its end is counted.", name))
	}
	if in.Malformed > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%s: %d of %d lines are no whole event (the first is line %d) and are left out.", name, in.Malformed, in.Lines, in.FirstMalformed))
	}
	if in.LongLines > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%s: %d lines are longer than 16 MiB and are left out.", name, in.LongLines))
	}
}

// fill computes the report of what was collected.
func (r *Report) fill(c *collector, m *model) {
	l := newLedger(c, m)
	r.Seconds = l.period
	if c.first > 0 {
		r.From, r.To = time.UnixMicro(c.first).UTC(), time.UnixMicro(c.last).UTC()
	}
	r.Rest.Requests, r.Rest.Errors, r.Rest.Seconds = c.dropped.requests+c.dropped.started, c.dropped.errors, c.dropped.seconds
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
	r.Timeline = c.timeline.report()
	if len(r.Run.Inputs) > maxInputs {
		r.Notes = append(r.Notes, fmt.Sprintf("Of %d inputs the first %d are named.", len(r.Run.Inputs), maxInputs))
		r.Run.Inputs = r.Run.Inputs[:maxInputs]
	}
}
