package replay

import (
	_ "embed"
	"html/template"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/render"
)

//go:embed page.html
var pageTemplate string

// Bounds of the page. The JSON has all rows.
const (
	pageRows = 60
	pageBars = 12
)

// htmlPage is the data of the page's template. The template escapes all text.
type htmlPage struct {
	*Report
	Sums   []htmlSums
	Plots  []htmlPlot
	Tables []htmlTable
	Notes  []string
}

// htmlSums are a server's outcome with the sums of its clients.
type htmlSums struct {
	*ServerOutcome
	Total ClientOutcome
}

// htmlPlot has a bar of each client and server.
type htmlPlot struct {
	Title string
	Bars  []htmlBar
}

// htmlBar is a bar. Length is in thousandths of the longest bar, and Number is the index of the
// server. Only the first bar of a client has a Label.
type htmlBar struct {
	Label, Client, Server, Value string
	Number                       int
	Length                       float64
	amount                       float64 // Length before it is scaled
}

// htmlTable is a table. If Grouped, a row of groups stands above its titles.
type htmlTable struct {
	Title   string
	Table   *render.Table
	Grouped bool
	Groups  []htmlGroup
}

type htmlGroup struct {
	Title   string
	Columns int
}

// WritePage writes the report to a file as one HTML page, which loads nothing from elsewhere.
func (r *Report) WritePage(name string) error {
	return display.WritePage(name, pageTemplate, template.FuncMap{
		"ms": func(n float64) string { return display.Seconds(n / 1000) },
	}, r.page())
}

// page returns the data of the page: plots that have bars, and two tables.
func (r *Report) page() *htmlPage {
	p := &htmlPage{Report: r, Notes: r.notes()}
	for i := range r.Servers {
		p.Sums = append(p.Sums, htmlSums{&r.Servers[i], r.Servers[i].totals()})
	}
	millis := func(latencies func(*ClientOutcome) *render.Latencies) func(*ClientOutcome) (float64, string) {
		return func(c *ClientOutcome) (float64, string) {
			l := latencies(c)
			if l == nil {
				return 0, ""
			}
			return l.P99, display.Seconds(l.P99 / 1000)
		}
	}
	for _, plotted := range []struct {
		title string
		value func(*ClientOutcome) (float64, string)
	}{
		{"Bytes by client", func(c *ClientOutcome) (float64, string) { return float64(c.Bytes), display.Size(c.Bytes) }},
		{"LISTs by client, 99th percentile", millis(func(c *ClientOutcome) *render.Latencies { return c.ListMillis })},
		{"GETs by client, 99th percentile", millis(func(c *ClientOutcome) *render.Latencies { return c.GetMillis })},
		{"Writes by client, 99th percentile", millis(func(c *ClientOutcome) *render.Latencies { return c.WriteMillis })},
		{"Watches by client until the answer starts, 99th percentile", millis(func(c *ClientOutcome) *render.Latencies { return c.WatchMillis })},
	} {
		if bars := r.bars(plotted.value); len(bars) > 0 {
			p.Plots = append(p.Plots, htmlPlot{plotted.title, bars})
		}
	}
	clients, shapes := r.clientTable(pageRows), r.shapeTable(pageRows)
	p.Tables = []htmlTable{newHTMLTable("By client, times as median / 99th percentile in ms", &clients), newHTMLTable("By request", &shapes)}
	return p
}

func newHTMLTable(title string, table *render.Table) htmlTable {
	t := htmlTable{Title: title, Table: table}
	for _, c := range table.Columns[1:] {
		if n := len(t.Groups); n > 0 && t.Groups[n-1].Title == c.Group {
			t.Groups[n-1].Columns++
		} else {
			t.Groups = append(t.Groups, htmlGroup{c.Group, 1})
		}
		t.Grouped = t.Grouped || c.Group != ""
	}
	return t
}

// bars returns the bars of the first server's largest clients, one for each server. value returns
// the length of a client's bar and its text, which is empty for a client without a bar.
func (r *Report) bars(value func(*ClientOutcome) (float64, string)) (bars []htmlBar) {
	byClient := make([]map[serverreport.Client]*ClientOutcome, len(r.Servers))
	for i := range r.Servers {
		byClient[i] = r.Servers[i].byClient()
	}
	clients := 0
	var longest float64
	for i := range r.Servers[0].Clients {
		c := &r.Servers[0].Clients[i]
		if _, text := value(c); text == "" || clients == pageBars {
			continue
		}
		clients++
		client := display.Clean(c.Name())
		label := client
		for n := range r.Servers {
			other := byClient[n][c.Client]
			if other == nil {
				continue
			}
			amount, text := value(other)
			if text == "" {
				text = "-"
			}
			bars = append(bars, htmlBar{Label: label, Client: client, Server: r.Servers[n].Address, Value: text, Number: n, amount: amount})
			longest = max(longest, amount)
			label = ""
		}
	}
	for i := range bars {
		if longest > 0 {
			bars[i].Length = 1000 * bars[i].amount / longest
		}
	}
	return bars
}
