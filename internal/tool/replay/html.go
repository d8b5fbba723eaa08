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

// Rows of the page. The JSON has all.
const (
	pageRows = 60
	pageBars = 12
)

// htmlPage is what the template of the page sees. The template escapes all text.
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

// htmlBar is a bar, whose length is in thousandths of the longest. Number is the server's. The
// label stands at a client's first bar alone.
type htmlBar struct {
	Label, Client, Server, Value string
	Number                       int
	Length                       float64
	amount                       float64
}

// htmlTable is a table with a line of groups above its titles, if it has any.
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

// WritePage writes the report as one page, which loads nothing.
func (r *Report) WritePage(name string) error {
	return display.WritePage(name, pageTemplate, template.FuncMap{
		"ms": func(n float64) string { return display.Seconds(n / 1000) },
	}, r.page())
}

func (r *Report) page() *htmlPage {
	p := &htmlPage{Report: r, Notes: r.notes()}
	for i := range r.Servers {
		p.Sums = append(p.Sums, htmlSums{&r.Servers[i], r.Servers[i].totals()})
	}
	millis := func(of func(*ClientOutcome) *render.Latencies) func(*ClientOutcome) (float64, string) {
		return func(c *ClientOutcome) (float64, string) {
			l := of(c)
			if l == nil {
				return 0, ""
			}
			return l.P99, display.Seconds(l.P99 / 1000)
		}
	}
	for _, of := range []struct {
		title string
		value func(*ClientOutcome) (float64, string)
	}{
		{"Bytes by client", func(c *ClientOutcome) (float64, string) { return float64(c.Bytes), display.Size(c.Bytes) }},
		{"LISTs by client, 99th percentile", millis(func(c *ClientOutcome) *render.Latencies { return c.ListMillis })},
		{"GETs by client, 99th percentile", millis(func(c *ClientOutcome) *render.Latencies { return c.GetMillis })},
		{"Writes by client, 99th percentile", millis(func(c *ClientOutcome) *render.Latencies { return c.WriteMillis })},
		{"Watches by client until they begin, 99th percentile", millis(func(c *ClientOutcome) *render.Latencies { return c.WatchMillis })},
	} {
		if plot := r.plot(of.value); len(plot) > 0 {
			p.Plots = append(p.Plots, htmlPlot{of.title, plot})
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

// plot has the bars of the first server's largest clients, at each server. value returns an
// empty text for a client that has none.
func (r *Report) plot(value func(*ClientOutcome) (float64, string)) (bars []htmlBar) {
	byClient := make([]map[serverreport.Client]*ClientOutcome, len(r.Servers))
	for i := range r.Servers {
		byClient[i] = r.Servers[i].byClient()
	}
	clients, longest := 0, 0.0
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
			longest, label = max(longest, amount), ""
		}
	}
	for i := range bars {
		if longest > 0 {
			bars[i].Length = 1000 * bars[i].amount / longest
		}
	}
	return bars
}
