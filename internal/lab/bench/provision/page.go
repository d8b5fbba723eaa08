package provision

import (
	_ "embed"
	"html/template"

	"github.com/millrace/millrace/internal/tool/display"
)

//go:embed page.html
var pageTemplate string

// pathColours is the number of colours of paths. Further paths repeat them.
const pathColours = 4

// htmlPage is the data of the page's template. The template escapes all text.
type htmlPage struct {
	*report
	Charts []htmlChart
	Tables []htmlTable
	Lines  []string
	Paths  []htmlPath
}

// htmlPath is the summary of a path.
type htmlPath struct{ Title, Failed, Provision, Watch string }

// htmlChart has the percentiles of a step, each with a bar for each path. All bars have one scale.
type htmlChart struct {
	Title string
	Bars  []htmlBar
}

// htmlBar is a bar. Length is in thousandths of the longest bar. Number is the number of the path, for
// its colour. Only the first bar of a percentile has a Label.
type htmlBar struct {
	Label, Percentile, Path, Value string
	Number                         int
	Length                         float64
}

// htmlTable is a table of the report. Its first column has the titles of rows.
type htmlTable struct {
	Title   string
	Columns []string
	Rows    [][]string
}

// writePage writes the report to a file, as one page that loads nothing.
func (r *report) writePage(name string) error {
	groups := r.groups()
	p := &htmlPage{report: r, Lines: r.notes()}
	for _, chart := range []struct{ step, title string }{{stepProvision, "A pod, from creation to running"},
		{stepWatch, "An event, from its write to a watcher"}} {
		if c := newHTMLChart(chart.title, chart.step, groups); len(c.Bars) > 0 {
			p.Charts = append(p.Charts, c)
		}
	}
	for _, g := range groups {
		p95, p99 := percentiles()[1], percentiles()[2]
		p.Paths = append(p.Paths, htmlPath{g.title, g.lastError(), milliseconds(g.median(p95.figureOf(stepProvision))),
			milliseconds(g.median(p99.figureOf(stepWatch)))})
	}
	for _, t := range []struct {
		title string
		rows  []row
	}{{"From creation to running", stepRows()}, {"What it cost", costRows()}} {
		p.Tables = append(p.Tables, newHTMLTable(t.title, t.rows, groups))
	}
	return display.WritePage(name, pageTemplate, template.FuncMap{
		"milliseconds": milliseconds, "colour": func(i int) int { return i % pathColours },
	}, p)
}

// newHTMLChart returns the chart of a step, without bars for values that were not measured.
func newHTMLChart(title, step string, groups []*pathGroup) htmlChart {
	c := htmlChart{Title: title}
	var longest float64
	for _, q := range percentiles() {
		label := q.name
		for i, g := range groups {
			v := g.median(q.figureOf(step))
			if !(v > 0) {
				continue
			}
			c.Bars = append(c.Bars, htmlBar{Label: label, Percentile: q.name, Path: g.title, Value: milliseconds(v),
				Number: i % pathColours, Length: v})
			label = ""
			longest = max(longest, v)
		}
	}
	for i := range c.Bars {
		c.Bars[i].Length *= 1000 / longest
	}
	return c
}

// newHTMLTable returns a table of rows, without rows that have no value.
func newHTMLTable(title string, rows []row, groups []*pathGroup) htmlTable {
	t := htmlTable{Title: title}
	for i, g := range groups {
		t.Columns = append(t.Columns, g.title)
		if i > 0 {
			t.Columns = append(t.Columns, "ratio")
		}
	}
	for _, line := range rows {
		if cells := line.cells(groups); cells != nil {
			t.Rows = append(t.Rows, cells)
		}
	}
	return t
}

// Title returns the title of the path. The template calls it.
func (res result) Title() string { return res.pathTitle() }
