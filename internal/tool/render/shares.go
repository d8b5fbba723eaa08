package render

import (
	"fmt"
	"html"
	"strings"
)

// SharePlot is a column of charts of cumulative distributions, over the same axis. A line shows
// the share of samples up to each value. SVG draws it in the style of a Plot.
type SharePlot struct {
	Title, XTitle string
	Panels        []SharePanel
}

// SharePanel is one chart.
type SharePanel struct {
	Title string
	Lines []ShareLine
}

// ShareLine is one line of a chart, which belongs to one server.
type ShareLine struct {
	Name string
	// Percentiles has the values at which 1, 2, … percent of the samples are reached, in rising
	// order. The line ends where they end.
	Percentiles []float64
}

// Sizes of a SharePlot, in pixels of its view box.
const (
	shareLeft   = 64
	shareRight  = 24
	shareTop    = 50
	shareHeight = 170 // of the area of a panel
	shareRow    = 19  // of the legend
	shareSpace  = 8   // below the legend
	shareGap    = 56  // between two panels, with the labels of the axis
)

const shareStyle = `<style>.p{font-weight:600}.l{fill:none;stroke-width:2.5;stroke-linejoin:round}
.l0{stroke:#0b7285}.l1{stroke:#868e96}.l2{stroke:#f08c00}.l3{stroke:#9c36b5}
@media (prefers-color-scheme:dark){.l0{stroke:#3bc9db}.l1{stroke:#adb5bd}.l2{stroke:#ffa94d}.l3{stroke:#da77f2}}
</style>`

// SVG returns the plot as an SVG document.
func (p SharePlot) SVG() string {
	largest := 0.0
	height := shareTop
	for _, panel := range p.Panels {
		height += (1+len(panel.Lines))*shareRow + shareSpace + shareHeight + shareGap
		for _, line := range panel.Lines {
			if n := len(line.Percentiles); n > 0 {
				largest = max(largest, line.Percentiles[n-1])
			}
		}
	}
	high, ticks := linearAxis(largest)
	x := func(v float64) float64 { return shareLeft + (plotWidth-shareLeft-shareRight)*v/high }
	var b strings.Builder
	title := html.EscapeString(p.Title)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">`, plotWidth, height, title)
	b.WriteString(plotStyle + shareStyle)
	fmt.Fprintf(&b, `<text class="t" x="16" y="26">%s</text>`, title)
	top := shareTop
	for _, panel := range p.Panels {
		top = panel.draw(&b, top, x, ticks)
		fmt.Fprintf(&b, `<text class="s" x="%d" y="%d" text-anchor="end">%s</text>`, plotWidth-shareRight, top+34, html.EscapeString(p.XTitle))
		top += shareGap
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// draw draws a panel from y = top down, and returns the y of its axis. x maps a value to its
// place on the axis.
func (p *SharePanel) draw(b *strings.Builder, top int, x func(float64) float64, ticks []float64) (bottom int) {
	fmt.Fprintf(b, `<text class="p" x="16" y="%d">%s</text>`, top+8, html.EscapeString(p.Title))
	for i, line := range p.Lines {
		y := top + (i+1)*shareRow
		fmt.Fprintf(b, `<line class="l l%d" x1="16" y1="%d" x2="40" y2="%d"/><text class="s" x="48" y="%d">%s</text>`,
			i%colours, y+4, y+4, y+8, html.EscapeString(line.Name))
	}
	top += (1+len(p.Lines))*shareRow + shareSpace
	bottom = top + shareHeight
	y := func(percent int) float64 { return float64(bottom) - shareHeight*float64(percent)/100 }
	for percent := 0; percent <= 100; percent += 25 {
		fmt.Fprintf(b, `<line class="g" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, shareLeft, y(percent), plotWidth-shareRight, y(percent))
		fmt.Fprintf(b, `<text class="s" x="%d" y="%.1f" text-anchor="end">%d %%</text>`, shareLeft-8, y(percent)+4, percent)
	}
	for _, v := range ticks {
		fmt.Fprintf(b, `<text class="s" x="%.1f" y="%d" text-anchor="middle">%g</text>`, x(v), bottom+18, v)
	}
	for i, line := range p.Lines {
		fmt.Fprintf(b, `<polyline class="l l%d" points="%.1f,%d`, i%colours, x(0), bottom)
		for at, v := range line.Percentiles {
			fmt.Fprintf(b, " %.1f,%.1f %.1f,%.1f", x(v), y(at), x(v), y(at+1))
		}
		b.WriteString(`"/>`)
	}
	return bottom
}
