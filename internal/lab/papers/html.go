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

// htmlPage has the values of the page's template. The template escapes all text.
type htmlPage struct {
	*Report
	Letter   string
	About    *Paper
	Scaled   string // note on the scale
	RunNote  string
	Headings []string
	Parts    []htmlSection
	Legend   []htmlName
	Minutes  string     // the sum of all steps
	Remarks  [][]string // of each step
	Compared bool       // ratios are shown
}

// htmlName is a server's name with the class of its colour.
type htmlName struct{ Class, Name string }

// htmlSection is a section with its bars and charts.
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

// htmlBar is the figure of one server.
type htmlBar struct {
	htmlName
	Value string
	Width float64 // in thousandths of the longest bar
	Ratio string  // how many times better Millrace is; may be empty
}

// htmlChart is a chart with its lines as points in a box of boxSize by boxSize.
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
	// boxSize is the width and height of a chart's box, and the length of the longest bar.
	boxSize = 1000
	// minWidth is the length of the shortest bar, so that it can be seen.
	minWidth = 4
)

// styledName returns the name of a server with the class of its colour.
func styledName(server string) htmlName {
	class := "stock"
	switch server {
	case testbed.ReadPathMillrace, testbed.ReadPathEncoded:
		class = "ours"
	case testbed.ReadPathStock, testbed.ReadPathExisting:
		class = "other"
	}
	return htmlName{class, serverName(server)}
}

// writePage writes the report to a file as one HTML page, which loads nothing.
func (r *Report) writePage(name string) error {
	return display.WritePage(name, pageTemplate, template.FuncMap{"seconds": render.FormatNumber}, r.htmlPage())
}

// htmlPage returns the values of the template. The report must be complete.
func (r *Report) htmlPage() *htmlPage {
	servers := measuredServers(r.Sections)
	p := &htmlPage{
		Report: r, Letter: strings.ToUpper(r.Paper), About: r.paper, Scaled: r.scaleNote(), RunNote: r.runNote(), Headings: headings(servers),
		Legend: []htmlName{{publishedClass, "published"}}, Compared: len(comparedServers(servers)) > 0, Remarks: r.remarks,
	}
	for _, s := range servers {
		p.Legend = append(p.Legend, styledName(s))
	}
	var total float64
	for _, s := range r.Steps {
		total += s.Seconds
	}
	p.Minutes = render.FormatNumber(total / 60)
	for i := range r.Sections {
		p.Parts = append(p.Parts, r.Sections[i].htmlSection(servers))
	}
	return p
}

func (s *Section) htmlSection(servers []string) htmlSection {
	h := htmlSection{Section: s}
	for i := range s.Rows {
		h.Figures = append(h.Figures, s.Rows[i].htmlFigure(servers))
		h.Table = append(h.Table, s.Rows[i].cells(servers))
	}
	for _, c := range s.Charts {
		h.Drawn = append(h.Drawn, c.htmlChart())
	}
	return h
}

// htmlFigure returns the bars of a row: the published figure first, then each server's. All are
// relative to the largest value.
func (r *Row) htmlFigure(servers []string) htmlFigure {
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
		bar := htmlBar{htmlName: styledName(s), Value: r.Unit.format(v), Width: width(v)}
		if slices.Contains(comparedServers(servers), s) {
			bar.Ratio = r.Unit.ratio(v, r.Values[testbed.ReadPathMillrace])
		}
		f.Bars = append(f.Bars, bar)
	}
	return f
}

// htmlChart returns the lines of a chart in its box. Both axes start at 0.
func (c *Chart) htmlChart() htmlChart {
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
		h.Lines = append(h.Lines, htmlLine{styledName(line.Server), strings.TrimSpace(points.String())})
	}
	return h
}
