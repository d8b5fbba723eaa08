package list

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// text returns the report in a format of tables.
func (r *report) text(format string) string {
	table := r.comparison().Table(load.Cells, format == render.Wide)
	if r.Cold {
		table = r.coldTable()
	}
	return render.Document(format, table, r.sectionTables(), r.footer())
}

// sectionTables returns the tables of all sections. Tables of sections that did not run have no
// rows.
func (r *report) sectionTables() []render.TitledTable {
	return []render.TitledTable{r.startTable(), r.readersTable(), r.memoryTable(), r.rssTable(), r.stalledTable()}
}

// memoryTable returns the table of the section list-memory.
func (r *report) memoryTable() render.TitledTable {
	t := render.TitledTable{Title: "Memory per concurrent LIST of all pods, slow readers", Table: render.Table{
		Columns: render.ColumnsOf("server", "LISTs", "body", "RSS before", "peak", "per LIST")}}
	for _, s := range r.Servers {
		if m := s.Memory; m != nil && m.Error == "" {
			t.Table.Add(s.Name, fmt.Sprint(m.Lists), render.FormatBytes(m.BodyBytes), render.FormatBytes(m.BeforeBytes),
				render.FormatBytes(m.PeakBytes), render.FormatBytes(m.PerListBytes))
		}
	}
	return t
}

// rssTable returns the table of the section list-rss.
func (r *report) rssTable() render.TitledTable {
	t := render.TitledTable{Table: render.Table{Columns: render.ColumnsOf("server", "ready s", "peak to ready", "RSS idle", "peak under LISTs", "RSS after")}}
	for _, s := range r.Servers {
		if m := s.RSS; m != nil && m.Error == "" {
			ready := "-"
			if s.StartMillis > 0 {
				ready = render.FormatNumber(s.StartMillis / 1000)
			}
			t.Title = fmt.Sprintf("Memory at rest, and after %d LISTs of all pods in each of %d encodings; at least %s of rest before idle and after",
				m.Lists, len(m.Encodings), m.Rest)
			t.Table.Add(s.Name, ready, render.FormatBytes(m.StartPeakBytes), render.FormatBytes(m.IdleBytes),
				render.FormatBytes(m.PeakBytes), render.FormatBytes(m.AfterBytes))
		}
	}
	return t
}

// stalledTable returns the table of the section list-stalled.
func (r *report) stalledTable() render.TitledTable {
	t := render.TitledTable{Table: render.Table{Columns: render.ColumnsOf("server", "body", "RSS idle", "RSS before", "peak",
		"complete", "cut off", "refused", "fast s", "slow s")}}
	for _, s := range r.Servers {
		if m := s.Stalled; m != nil && m.Error == "" {
			t.Title = fmt.Sprintf("%d LISTs of all secrets at once, every second one read slowly, over %s; at least %s of rest before idle",
				m.Clients, m.Stall, m.Rest)
			t.Table.Add(s.Name, render.FormatBytes(m.BodyBytes), render.FormatBytes(m.IdleBytes), render.FormatBytes(m.BeforeBytes),
				render.FormatBytes(m.PeakBytes),
				fmt.Sprint(m.Fast.Complete+m.Slow.Complete), fmt.Sprint(m.Fast.CutOff+m.Slow.CutOff), fmt.Sprint(m.Fast.Refused+m.Slow.Refused),
				m.Fast.formatMedian(), m.Slow.formatMedian())
		}
	}
	return t
}

// formatMedian returns the median time of the complete LISTs in seconds, "-" if there are none.
func (r readerOutcomes) formatMedian() string {
	if r.Complete == 0 {
		return "-"
	}
	return render.FormatNumber(r.Seconds)
}

// footer returns lines about the servers, the load, the data and the machine, and the notes.
func (r *report) footer() []string {
	var lines []string
	for _, s := range r.Servers {
		lines = append(lines, load.ServerLine(s.Name, s.Version, s.StartMillis, s.IdleBytes))
	}
	run := r.Protocol
	if len(r.ResourceVersions) > 0 {
		run += ", resourceVersion " + strings.Join(r.ResourceVersions, " and ")
	}
	if r.Cold {
		lines = append(lines, r.coldLine())
	} else {
		lines = append(lines, r.Plan.FooterLine(run))
	}
	if d := r.Data; d != nil {
		lines = append(lines, d.String())
	}
	if r.ExternalEtcd {
		lines = append(lines, testbed.ExternalEtcdNote)
	}
	if len(r.Floor) > 0 && len(r.Servers) > 0 {
		lines = append(lines, "floor: Go's HTTP server writing "+r.Servers[0].Name+"'s bytes from memory")
	}
	lines = append(lines, r.Machine.String()+", "+r.Started.UTC().Format(time.RFC3339))
	return append(lines, r.Notes...)
}
