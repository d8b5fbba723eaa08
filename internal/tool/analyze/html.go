package analyze

import (
	_ "embed"
	"fmt"
	"html/template"

	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/render"
)

//go:embed page.html
var pageTemplate string

// Bounds of the page. The JSON has all rows.
const (
	pageRows    = 40
	pageBars    = 12
	labelLength = 40 // in characters
)

// htmlPage is the data of the page's template. The template escapes all text.
type htmlPage struct {
	*Report
	Line       string
	HeadNotes  []string
	Findings   []pageFinding
	Clients    []ClientCost
	Shapes     []ShapeCost
	Starts     []Start
	ClientPlot []bar
	Moments    []column
	MomentTop  string
}

// pageFinding is a finding with its number, and a text on what its repair saves.
type pageFinding struct {
	*Finding
	Number int
	Saves  string
}

// bar is a bar of a chart. Saved is the part that the findings would save, and Rest is the rest,
// both in thousandths of the longest bar. Name is Label in full.
type bar struct {
	Name, Label, Value string
	Rest, Saved        int
}

// column is a moment of the timeline. All numbers are in thousandths of the chart.
type column struct {
	X, Width            float64
	Lists, Watch, Other float64
	Title               string
}

// writeHTML writes a report to a file as one HTML page, which loads nothing from elsewhere.
func writeHTML(name string, r *Report) error {
	return display.WritePage(name, pageTemplate, template.FuncMap{
		"cores": formatCores,
		"rate":  func(n float64) string { return fmt.Sprintf("%.1f", n) },
	}, r.htmlPage())
}

// htmlPage returns the data of the page.
func (r *Report) htmlPage() *htmlPage {
	p := &htmlPage{
		Report: r, Line: r.Run.line(), HeadNotes: r.headNotes(), ClientPlot: r.clientPlot(),
		Clients: r.Clients[:min(pageRows, len(r.Clients))],
		Shapes:  r.Shapes[:min(pageRows, len(r.Shapes))],
		Starts:  r.Starts[:min(pageRows, len(r.Starts))],
	}
	for i := range r.Findings {
		p.Findings = append(p.Findings, pageFinding{&r.Findings[i], i + 1, r.savingText(i)})
	}
	p.Moments, p.MomentTop = r.columns()
	return p
}

// clientPlot returns bars of the CPU of clients, with the parts that findings would save.
func (r *Report) clientPlot() []bar {
	saved := r.savedByClient()
	shown := r.Clients[:min(pageBars, len(r.Clients))]
	if len(shown) == 0 || shown[0].CPU == 0 {
		return nil
	}
	longest := shown[0].CPU
	var plot []bar
	for i := range shown {
		c := &shown[i]
		part := min(saved[c.Client], c.CPU)
		plot = append(plot, bar{
			Name: display.Clean(c.Name()), Label: display.Clean(render.Shorten(tableName(&c.Client), labelLength)), Value: display.Seconds(c.CPU),
			Rest: int(1000 * (c.CPU - part) / longest), Saved: int(1000 * part / longest),
		})
	}
	return plot
}

// columns returns the columns of the timeline, and a text on what their full height stands for. It
// returns nil for a timeline of less than two moments.
func (r *Report) columns() ([]column, string) {
	highest := uint64(0)
	for _, m := range r.Timeline {
		highest = max(highest, m.Requests)
	}
	if highest == 0 || len(r.Timeline) < 2 {
		return nil, ""
	}
	height := func(n uint64) float64 { return 1000 * float64(n) / float64(highest) }
	width := 1000 / float64(len(r.Timeline))
	all := make([]column, len(r.Timeline))
	for i, m := range r.Timeline {
		all[i] = column{
			X: width * float64(i), Width: width * 0.92, Lists: height(m.Lists), Watch: height(m.Watches), Other: height(m.Requests - m.Lists - m.Watches),
			Title: fmt.Sprintf("%s, %s requests, %s LISTs, %s watches",
				m.Time.Format("2006-01-02 15:04:05"), display.Count(m.Requests), display.Count(m.Lists), display.Count(m.Watches)),
		}
	}
	step := r.Timeline[1].Time.Sub(r.Timeline[0].Time)
	return all, fmt.Sprintf("%s requests in %s", display.Count(highest), display.Seconds(step.Seconds()))
}

// ListsY, WatchY and OtherY return the upper end of a column's part, from the top.
func (c column) ListsY() float64 { return 1000 - c.Lists }
func (c column) WatchY() float64 { return 1000 - c.Lists - c.Watch }
func (c column) OtherY() float64 { return 1000 - c.Lists - c.Watch - c.Other }
