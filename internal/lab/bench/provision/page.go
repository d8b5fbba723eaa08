package provision

import (
	_ "embed"
	"html/template"

	"github.com/millrace/millrace/internal/tool/display"
)

//go:embed page.html
var pageTemplate string

// pathColours is how many colours paths have. Further paths begin anew.
const pathColours = 4

// htmlPage is what the template of the page sees. The template escapes all text.
type htmlPage struct {
	*report
	Charts []htmlChart
	Tables []htmlTable
	Lines  []string
	Paths  []htmlPath
}

// htmlPath is the summary of a path.
type htmlPath struct{ Title, Failed, Provision, Watch string }

// htmlChart is the percentiles of a step, each with a bar for each path. Its bars have one scale.
type htmlChart struct {
	Title string
	Bars  []htmlBar
}

// htmlBar is a bar, whose length is in thousandths of the longest. Number is that of the path.
// The label stands at a percentile's first bar alone.
type htmlBar struct {
	Label, Percentile, Path, Value string
	Number                         int
	Length                         float64
}

// htmlTable is a table of the report. Its first column is that of titles.
type htmlTable struct {
	Title   string
	Columns []string
	Rows    [][]string
}

// writePage writes the report as one page, which loads nothing.
func (r *report) writePage(name string) error {
	groups := r.groups()
	p := &htmlPage{report: r, Lines: r.notes()}
	for _, shown := range []struct{ step, title string }{{stepProvision, "A pod, from creation to running"}, {stepWatch, "An event, from its write to a watcher"}} {
		if c := newHTMLChart(shown.title, shown.step, groups); len(c.Bars) > 0 {
			p.Charts = append(p.Charts, c)
		}
	}
	for _, g := range groups {
		shown := percentiles()
		p.Paths = append(p.Paths, htmlPath{g.title, g.failed(), milliseconds(g.median(shown[1].of(stepProvision))), milliseconds(g.median(shown[2].of(stepWatch)))})
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

func newHTMLChart(title, step string, groups []*pathGroup) htmlChart {
	c, longest := htmlChart{Title: title}, 0.0
	for _, q := range percentiles() {
		label := q.name
		for i, g := range groups {
			v := g.median(q.of(step))
			if !(v > 0) {
				continue
			}
			c.Bars = append(c.Bars, htmlBar{Label: label, Percentile: q.name, Path: g.title, Value: milliseconds(v), Number: i % pathColours, Length: v})
			label, longest = "", max(longest, v)
		}
	}
	for i := range c.Bars {
		c.Bars[i].Length *= 1000 / longest
	}
	return c
}

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

// Title names the path, for the template.
func (res result) Title() string { return res.title() }
