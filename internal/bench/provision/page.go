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
}

// htmlTable is a table of the report. Its first column is that of titles.
type htmlTable struct {
	Title   string
	Columns []string
	Rows    [][]string
}

// writePage writes the report as one page, which loads nothing.
func (r *report) writePage(name string) error {
	p := &htmlPage{report: r, Chart: template.HTML(r.plot().SVG()), Lines: r.notes()}
	for _, t := range []struct {
		title string
		rows  []row
	}{{"From creation to running", stepRows()}, {"What it cost", costRows()}} {
		p.Tables = append(p.Tables, r.htmlTable(t.title, t.rows))
	}
	page, err := display.Page(pageTemplate, template.FuncMap{
		"milliseconds": milliseconds, "seconds": seconds, "count": func(n int) string { return display.Count(n) },
	}, p)
	if err != nil {
		return err
	}
	return display.WriteFile(name, page)
}

func (r *report) htmlTable(title string, rows []row) htmlTable {
	t := htmlTable{Title: title}
	for i := range r.Results {
		t.Columns = append(t.Columns, r.Results[i].title())
		if i > 0 {
			t.Columns = append(t.Columns, "ratio")
		}
	}
	for _, line := range rows {
		if cells := r.cells(line); cells != nil {
			t.Rows = append(t.Rows, cells)
		}
	}
	return t
}

// Quantiles are those of a step, for the template.
func (res result) Quantiles(step string) quantiles { return res.Steps[step] }

// Title names the path, for the template.
func (res result) Title() string { return res.title() }
