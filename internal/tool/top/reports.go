package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/display"
)

// reports holds the reports that a view needs. A report that the server does not serve is nil.
type reports struct {
	SLO      *serverreport.SLOReport
	Watchers *serverreport.WatchersReport
	Lists    *serverreport.ListsReport
	Memory   *serverreport.MemoryReport
	CRDs     *serverreport.CRDsReport
	Feed     *serverreport.FeedReport
	Replica  *serverreport.ReplicaReport

	// raw holds the bytes of the reports by name, as the server sent them.
	raw map[string]json.RawMessage
	// previous holds the totals of the previous refresh, for rates. It is zero at the first
	// refresh.
	previous totals
}

// totals has the sums of a server since its start, at a time.
type totals struct {
	at            time.Time
	events, bytes uint64 // that watches were sent
}

// fetch returns the reports of a view. The server must serve the first report of view.needs to this
// user. For the overview one report is enough, if the user may read all.
func (c *client) fetch(ctx context.Context, v view) (*reports, error) {
	r := &reports{raw: map[string]json.RawMessage{}}
	into := map[string]any{
		"slo": &r.SLO, "watchers": &r.Watchers, "lists": &r.Lists, "memory": &r.Memory, "crds": &r.CRDs, "feed": &r.Feed, "replica": &r.Replica,
	}
	var absent error
	for i, name := range v.needs {
		raw, err := c.get(ctx, name)
		if errors.Is(err, errAbsent) && (i > 0 || v.name == "overview") {
			absent = err
			continue
		}
		if errors.Is(err, errRefused) && i > 0 && v.name != "overview" {
			continue // a user may have the right to the view's own report alone
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

// sums returns the totals for the next refresh, zero without an SLO report.
func (r *reports) sums() totals {
	if r.SLO == nil {
		return totals{}
	}
	return totals{r.SLO.Time, r.SLO.All.Events, r.SLO.All.Bytes}
}

// rates returns the events and bytes per second since the previous refresh, as text. It returns ""
// if there was no previous refresh or the server has restarted.
func (r *reports) rates() string {
	now := r.sums()
	took := now.at.Sub(r.previous.at).Seconds()
	if r.previous.at.IsZero() || took <= 0 || now.events < r.previous.events || now.bytes < r.previous.bytes {
		return ""
	}
	perSecond := func(now, previous uint64) float64 { return float64(now-previous) / took }
	return fmt.Sprintf("  %s/s  %s/s", display.Count(perSecond(now.events, r.previous.events)),
		display.Size(perSecond(now.bytes, r.previous.bytes)))
}

// json returns the JSON of a view's first report. For the overview it returns an object with all
// reports by name.
func (r *reports) json(v view) ([]byte, error) {
	if v.name != "overview" {
		return json.MarshalIndent(r.raw[v.name], "", "  ")
	}
	return json.MarshalIndent(r.raw, "", "  ")
}
