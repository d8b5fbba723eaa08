package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/report"
)

// reports are those that a view needs, nil for what the server does not make.
type reports struct {
	SLO      *report.SLOReport
	Watchers *report.WatchersReport
	Lists    *report.ListsReport
	Memory   *report.MemoryReport
	CRDs     *report.CRDsReport
	Feed     *report.FeedReport

	// raw are the reports as they came.
	raw map[string]json.RawMessage
	// previous are all events and bytes at the refresh before, for rates.
	previous totals
}

type totals struct {
	at            time.Time
	events, bytes uint64
}

// fetch reads the reports of a view. The first one must be there, but for the
// overview, which needs any.
func (c *client) fetch(ctx context.Context, v view) (*reports, error) {
	r := &reports{raw: map[string]json.RawMessage{}}
	into := map[string]any{"slo": &r.SLO, "watchers": &r.Watchers, "lists": &r.Lists, "memory": &r.Memory, "crds": &r.CRDs, "feed": &r.Feed}
	var absent error
	for i, name := range v.needs {
		raw, err := c.get(ctx, name)
		if errors.Is(err, errAbsent) && (i > 0 || v.name == "overview") {
			absent = err
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(raw, into[name]); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		r.raw[name] = raw
	}
	if len(r.raw) == 0 {
		return nil, absent
	}
	return r, nil
}

// totals are for the next refresh.
func (r *reports) totals() totals {
	if r.SLO == nil {
		return totals{}
	}
	return totals{r.SLO.Time, r.SLO.All.Events, r.SLO.All.Bytes}
}

// rates tells what was delivered since the refresh before, "" where that is unknown.
func (r *reports) rates() string {
	now := r.totals()
	took := now.at.Sub(r.previous.at).Seconds()
	if r.previous.at.IsZero() || took <= 0 || now.events < r.previous.events || now.bytes < r.previous.bytes {
		return ""
	}
	return fmt.Sprintf("  %s/s  %s/s", count(float64(now.events-r.previous.events)/took), size(float64(now.bytes-r.previous.bytes)/took))
}

// json is the report of a view, or an object of all that the overview needs.
func (r *reports) json(v view) ([]byte, error) {
	if v.name != "overview" {
		return json.MarshalIndent(r.raw[v.name], "", "  ")
	}
	return json.MarshalIndent(r.raw, "", "  ")
}
