package provision

import (
	_ "embed"
	"html/template"

	"github.com/millrace/millrace/internal/display"
)

//go:embed page.html
var pageTemplate string

// htmlPage is what the template of the page sees. The template escapes all text.
type htmlPage struct {
	*report
	Chart  template.HTML // made by this program, of numbers and names that it has escaped
	Tables []htmlTable
	Lines  []string
	Paths  []htmlPath
}

// htmlPath is the summary of a path.
type htmlPath struct{ Title, Failed, Provision, Watch string }

// htmlTable is a table of the report. Its first column is that of titles.
type htmlTable struct {
	Title   string
	Columns []string
	Rows    [][]string
}

// writePage writes the report as one page, which loads nothing.
func (r *report) writePage(name string) error {
	p := &htmlPage{report: r, Chart: template.HTML(r.plot().SVG()), Lines: r.notes()}
	groups := r.groups()
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
	page, err := display.Page(pageTemplate, template.FuncMap{
		"milliseconds": milliseconds, "count": func(n int) string { return display.Count(n) },
	}, p)
	if err != nil {
		return err
	}
	return display.WriteFile(name, page)
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
