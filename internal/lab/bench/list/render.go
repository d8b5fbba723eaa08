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
	return []render.TitledTable{r.startTable(), r.readersTable(), r.memoryTable(), r.rssTable(), r.slowReadersTable()}
}

// memoryTable returns the table of the section list-memory.
func (r *report) memoryTable() render.TitledTable {
	var servers []serverReport
	for _, s := range r.Servers {
		if s.Memory != nil && s.Memory.Error == "" {
			servers = append(servers, s)
		}
	}
	var fields render.Fields[serverReport]
	fields.Add("server", func(s serverReport) string { return s.Name })
	fields.Add("LISTs", func(s serverReport) string { return fmt.Sprint(s.Memory.Lists) })
	fields.Add("body", func(s serverReport) string { return render.FormatBytes(s.Memory.BodyBytes) })
	fields.Add("RSS before", func(s serverReport) string { return render.FormatBytes(s.Memory.BeforeBytes) })
	fields.Add("peak", func(s serverReport) string { return render.FormatBytes(s.Memory.PeakBytes) })
	fields.Add("per LIST", func(s serverReport) string { return render.FormatBytes(s.Memory.PerListBytes) })
	return render.TitledTable{Title: "Memory per concurrent LIST of all pods, slow readers", Table: *fields.Table(servers)}
}

// rssTable returns the table of the section list-rss.
func (r *report) rssTable() render.TitledTable {
	var t render.TitledTable
	var servers []serverReport
	for _, s := range r.Servers {
		if m := s.RSS; m != nil && m.Error == "" {
			servers = append(servers, s)
			t.Title = fmt.Sprintf("Memory at rest, and after %d LISTs of all pods in each of %d encodings; at least %s of "+
				"rest before idle and after",
				m.Lists, len(m.Encodings), m.Rest)
		}
	}
	var fields render.Fields[serverReport]
	fields.Add("server", func(s serverReport) string { return s.Name })
	fields.Add("ready s", func(s serverReport) string {
		if s.StartMillis == 0 {
			return "-"
		}
		return render.FormatNumber(s.StartMillis / 1000)
	})
	fields.Add("peak to ready", func(s serverReport) string { return render.FormatBytes(s.RSS.StartPeakBytes) })
	fields.Add("RSS idle", func(s serverReport) string { return render.FormatBytes(s.RSS.IdleBytes) })
	fields.Add("peak under LISTs", func(s serverReport) string { return render.FormatBytes(s.RSS.PeakBytes) })
	fields.Add("RSS after", func(s serverReport) string { return render.FormatBytes(s.RSS.AfterBytes) })
	t.Table = *fields.Table(servers)
	return t
}

// slowReadersTable returns the table of the section list-stalled.
func (r *report) slowReadersTable() render.TitledTable {
	type result struct {
		server string
		*slowReadersResult
	}
	var t render.TitledTable
	var results []result
	for _, s := range r.Servers {
		if m := s.SlowReaders; m != nil && m.Error == "" {
			results = append(results, result{s.Name, m})
			t.Title = fmt.Sprintf("%d LISTs of all secrets at once, every second one read slowly, over %s; at least %s of rest before idle",
				m.Clients, m.Stall, m.Rest)
		}
	}
	var fields render.Fields[result]
	fields.Add("server", func(r result) string { return r.server })
	fields.Add("body", func(r result) string { return render.FormatBytes(r.BodyBytes) })
	fields.Add("RSS idle", func(r result) string { return render.FormatBytes(r.IdleBytes) })
	fields.Add("RSS before", func(r result) string { return render.FormatBytes(r.BeforeBytes) })
	fields.Add("peak", func(r result) string { return render.FormatBytes(r.PeakBytes) })
	fields.Add("complete", func(r result) string { return fmt.Sprint(r.Fast.Complete + r.Slow.Complete) })
	fields.Add("cut off", func(r result) string { return fmt.Sprint(r.Fast.Failed + r.Slow.Failed) })
	fields.Add("refused", func(r result) string { return fmt.Sprint(r.Fast.Refused + r.Slow.Refused) })
	fields.Add("fast s", func(r result) string { return r.Fast.formatMedian() })
	fields.Add("slow s", func(r result) string { return r.Slow.formatMedian() })
	t.Table = *fields.Table(results)
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
