package papers

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/render"
)

//go:embed page.html
var pageTemplate string

// htmlPage is what the template of the page sees. The template escapes all text.
type htmlPage struct {
	*Report
	Letter   string
	About    *Paper
	Scaled   string // note on the scale
	RunNote  string
	Headings []string
	Parts    []htmlSection
	Legend   []htmlName
	Minutes  string
	Remarks  [][]string // of each step
	// Compared says that ratios are shown.
	Compared bool
}

// htmlName is a server's name with the class of its colour.
type htmlName struct{ Class, Name string }

// htmlSection is a section with its bars and lines drawn.
type htmlSection struct {
	*Section
	Figures []htmlFigure
	Table   [][]string
	Drawn   []htmlChart
}

// htmlFigure is a row as bars.
type htmlFigure struct {
	Name string
	Bars []htmlBar
}

// htmlBar is a figure of one server, with its length in thousandths.
type htmlBar struct {
	htmlName
	Value string
	Width float64
	// Ratio is how many times better Millrace is. It may be empty.
	Ratio string
}

// htmlChart is a chart with its lines as points of a box of 1000 by 1000.
type htmlChart struct {
	Title, Highest, Longest string
	Lines                   []htmlLine
}

type htmlLine struct {
	htmlName
	Points string
}

const (
	publishedClass = "published"
	// boxSize is the size of the box of a chart, and the length of the longest bar.
	boxSize = 1000
	// minWidth is the length of a bar that can still be seen.
	minWidth = 4
)

// nameOf is the name of a server with the class of its colour.
func nameOf(server string) htmlName {
	class := "stock"
	switch server {
	case testbed.ReadPathMillrace, testbed.ReadPathEncoded:
		class = "ours"
	case testbed.ReadPathStock, testbed.ReadPathExisting:
		class = "other"
	}
	return htmlName{class, serverName(server)}
}

// writePage writes the report as one page, which loads nothing.
func (r *Report) writePage(name string) error {
	return display.WritePage(name, pageTemplate, template.FuncMap{"seconds": render.FormatNumber}, r.htmlPage())
}

func (r *Report) htmlPage() *htmlPage {
	servers := serversOf(r.Sections)
	p := &htmlPage{
		Report: r, Letter: strings.ToUpper(r.Paper), About: r.paper, Scaled: r.scaleNote(), RunNote: r.runNote(), Headings: headings(servers),
		Legend: []htmlName{{publishedClass, "published"}}, Compared: len(compared(servers)) > 0, Remarks: r.remarks,
	}
	for _, s := range servers {
		p.Legend = append(p.Legend, nameOf(s))
	}
	var total float64
	for _, s := range r.Steps {
		total += s.Seconds
	}
	p.Minutes = render.FormatNumber(total / 60)
	for i := range r.Sections {
		p.Parts = append(p.Parts, r.Sections[i].html(servers))
	}
	return p
}

func (s *Section) html(servers []string) htmlSection {
	h := htmlSection{Section: s}
	for i := range s.Rows {
		h.Figures = append(h.Figures, s.Rows[i].html(servers))
		h.Table = append(h.Table, s.Rows[i].cells(servers))
	}
	for _, c := range s.Charts {
		h.Drawn = append(h.Drawn, c.html())
	}
	return h
}

func (r *Row) html(servers []string) htmlFigure {
	f := htmlFigure{Name: r.Name}
	most := r.PublishedValue
	for _, v := range r.Values {
		most = math.Max(most, v)
	}
	width := func(v float64) float64 {
		if v <= 0 {
			return 0
		}
		return math.Max(minWidth, boxSize*v/most)
	}
	if r.Published != "" {
		f.Bars = append(f.Bars, htmlBar{htmlName: htmlName{publishedClass, "published"}, Value: r.Published, Width: width(r.PublishedValue)})
	}
	for _, s := range servers {
		v, ok := r.Values[s]
		if !ok {
			continue
		}
		bar := htmlBar{htmlName: nameOf(s), Value: r.Unit.format(v), Width: width(v)}
		if slices.Contains(compared(servers), s) {
			bar.Ratio = r.Unit.ratio(v, r.Values[testbed.ReadPathMillrace])
		}
		f.Bars = append(f.Bars, bar)
	}
	return f
}

func (c *Chart) html() htmlChart {
	var longest, highest float64
	for _, line := range c.Lines {
		for _, p := range line.Points {
			longest, highest = math.Max(longest, p[0]), math.Max(highest, p[1])
		}
	}
	h := htmlChart{Title: c.Title, Highest: c.Unit.format(highest), Longest: render.FormatNumber(longest) + " s"}
	for _, line := range c.Lines {
		var points strings.Builder
		for _, p := range line.Points {
			fmt.Fprintf(&points, "%.1f,%.1f ", boxSize*p[0]/math.Max(longest, 1e-9), boxSize*(1-p[1]/math.Max(highest, 1)))
		}
		h.Lines = append(h.Lines, htmlLine{nameOf(line.Server), strings.TrimSpace(points.String())})
	}
	return h
}
