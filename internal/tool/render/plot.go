package render

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Plot is a bar chart with horizontal bars. Each group has one bar of each series. SVG draws it
// without scripts and fonts, for light and dark pages.
type Plot struct {
	Title string
	// Linear selects an axis that starts at 0. Otherwise the axis is logarithmic, for values
	// that differ by orders of magnitude.
	Linear bool
	Groups []string
	Series []Series
	Format func(float64) string // of the values at bars
}

// Series has the bars of one colour, which belong to one server.
type Series struct {
	Name string
	// Values has the lengths of the bars, by group. All are above 0. A group without a value has
	// no bar.
	Values map[string]float64
}

// Sizes of a Plot, in pixels of its view box.
const (
	plotWidth  = 860
	plotLeft   = 190
	plotRight  = 90
	barHeight  = 14
	barGap     = 3
	groupGap   = 18
	plotTop    = 64
	plotBottom = 44
)

// colours is the number of colours. Series take them in turns.
const colours = 4

const plotStyle = `<style>
text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1f2933}
.t{font-size:16px;font-weight:600}.s{font-size:12px;fill:#5f6b7a}
.g{stroke:#d5dae1;stroke-width:1}.b0{fill:#0b7285}.b1{fill:#adb5bd}.b2{fill:#f08c00}.b3{fill:#9c36b5}
@media (prefers-color-scheme:dark){text{fill:#e6e9ee}.s{fill:#9aa5b1}.g{stroke:#3a4350}
.b0{fill:#3bc9db}.b1{fill:#6c757d}.b2{fill:#ffa94d}.b3{fill:#da77f2}}
</style>`

// SVG returns the plot as an SVG document.
func (p Plot) SVG() string {
	low, high, ticks := p.axis()
	scale := func(v float64) float64 { return v }
	if !p.Linear {
		scale = math.Log10
	}
	x := func(v float64) float64 {
		return plotLeft + (plotWidth-plotLeft-plotRight)*(scale(v)-low)/(high-low)
	}
	groupHeight := len(p.Series)*(barHeight+barGap) + groupGap
	height := plotTop + len(p.Groups)*groupHeight + plotBottom
	var b strings.Builder
	title := html.EscapeString(p.Title)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">`, plotWidth, height, title)
	b.WriteString(plotStyle)
	fmt.Fprintf(&b, `<text class="t" x="16" y="26">%s</text>`, title)
	p.legend(&b)
	for _, v := range ticks {
		fmt.Fprintf(&b, `<line class="g" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, x(v), plotTop-6, x(v), height-plotBottom+4)
		fmt.Fprintf(&b, `<text class="s" x="%.1f" y="%d" text-anchor="middle">%s</text>`, x(v), height-plotBottom+20, p.tick(v))
	}
	for i, name := range p.Groups {
		y := plotTop + i*groupHeight
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, plotLeft-12, y+groupHeight/2-groupGap/2+4, html.EscapeString(name))
		for j, s := range p.Series {
			if v, ok := s.Values[name]; ok {
				p.bar(&b, j, y+j*(barHeight+barGap), x(v), v)
			}
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// axis returns the range of the axis and its ticks. On a logarithmic axis low and high
// are exponents of ten.
func (p Plot) axis() (low, high float64, ticks []float64) {
	smallest := math.Inf(1)
	largest := 0.0
	for _, s := range p.Series {
		for _, v := range s.Values {
			smallest, largest = min(smallest, v), max(largest, v)
		}
	}
	switch {
	case largest == 0:
		return 0, 1, nil
	case p.Linear:
		high, ticks = linearAxis(largest)
		return 0, high, ticks
	}
	low = math.Floor(math.Log10(smallest))
	high = math.Ceil(math.Log10(largest))
	if low == high {
		high++
	}
	for exponent := low; exponent <= high; exponent++ {
		ticks = append(ticks, math.Pow(10, exponent))
	}
	return low, high, ticks
}

// linearAxis returns the end of an axis that starts at 0, and its ticks.
func linearAxis(largest float64) (high float64, ticks []float64) {
	if largest <= 0 {
		return 1, nil
	}
	step := math.Pow(10, math.Floor(math.Log10(largest)))
	if largest < 4*step {
		step /= 2
	}
	high = step * math.Ceil(largest/step)
	for v := 0.0; v <= high; v += step {
		ticks = append(ticks, v)
	}
	return high, ticks
}

// tick returns the label of a tick. Labels of a logarithmic axis are powers of ten.
func (p Plot) tick(v float64) string {
	if !p.Linear {
		return fmt.Sprintf("%g", v)
	}
	return p.Format(v)
}

// legend draws the names of the series in a row. Widths of texts are estimated.
func (p Plot) legend(b *strings.Builder) {
	const letter = 7.2 // mean width
	const box = 30     // with the space around it
	at := 16.0
	for i, s := range p.Series {
		fmt.Fprintf(b, `<rect class="b%d" x="%.1f" y="38" width="12" height="12" rx="2"/><text class="s" x="%.1f" y="48">%s</text>`,
			i%colours, at, at+18, html.EscapeString(s.Name))
		at += box + letter*float64(len(s.Name))
	}
}

// bar draws the bar of value v, and v after it. end is the x at which the bar ends.
func (p Plot) bar(b *strings.Builder, colour, y int, end, v float64) {
	end = max(end, plotLeft+2)
	fmt.Fprintf(b, `<rect class="b%d" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`, colour%colours, plotLeft, y, end-plotLeft, barHeight)
	fmt.Fprintf(b, `<text class="s" x="%.1f" y="%d">%s</text>`, end+6, y+barHeight-3, p.Format(v))
}
