package list

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// text renders the report as "table", "wide" or "markdown".
func (r *report) text(format string) string {
	table := r.comparison().Table(load.Cells, format == "wide")
	if r.Cold {
		table = r.coldTable()
	}
	return render.Document(format, table, r.sectionTables(), r.footer())
}

// sectionTables are the tables of all sections. Those of sections that did not run have
// no rows.
func (r *report) sectionTables() []render.TitledTable {
	return []render.TitledTable{r.startTable(), r.readersTable(), r.memoryTable(), r.rssTable(), r.stalledTable()}
}

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

func (r *report) stalledTable() render.TitledTable {
	t := render.TitledTable{Table: render.Table{Columns: render.ColumnsOf("server", "body", "RSS idle", "RSS before", "peak",
		"whole", "cut off", "refused", "fast s", "slow s")}}
	for _, s := range r.Servers {
		if m := s.Stalled; m != nil && m.Error == "" {
			t.Title = fmt.Sprintf("%d LISTs of all secrets at once, every second one read slowly, over %s; at least %s of rest before idle", m.Clients, m.Stall, m.Rest)
			t.Table.Add(s.Name, render.FormatBytes(m.BodyBytes), render.FormatBytes(m.IdleBytes), render.FormatBytes(m.BeforeBytes), render.FormatBytes(m.PeakBytes),
				fmt.Sprint(m.Fast.Whole+m.Slow.Whole), fmt.Sprint(m.Fast.CutOff+m.Slow.CutOff), fmt.Sprint(m.Fast.Refused+m.Slow.Refused),
				m.Fast.median(), m.Slow.median())
		}
	}
	return t
}

func (r readerOutcomes) median() string {
	if r.Whole == 0 {
		return "-"
	}
	return render.FormatNumber(r.Seconds)
}

// footer describes the servers, the load, the data and the machine.
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
	if len(r.Floor) > 0 {
		lines = append(lines, "floor: Go's HTTP server writing "+r.Servers[0].Name+"'s bytes from memory")
	}
	lines = append(lines, r.Machine.String()+", "+r.Started.UTC().Format(time.RFC3339))
	return append(lines, r.Notes...)
}
