package bench

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The plot shows the CPU that each server spends on a request, a group of bars
// a workload, on a logarithmic axis: workloads differ by orders of magnitude.
// It is one SVG without scripts or fonts, for light and dark pages.

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

const plotStyle = `<style>
text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1f2933}
.t{font-size:16px;font-weight:600}.s{font-size:12px;fill:#5f6b7a}
.g{stroke:#d5dae1;stroke-width:1}.b0{fill:#0b7285}.b1{fill:#adb5bd}.b2{fill:#f08c00}
@media (prefers-color-scheme:dark){text{fill:#e6e9ee}.s{fill:#9aa5b1}.g{stroke:#3a4350}
.b0{fill:#3bc9db}.b1{fill:#6c757d}.b2{fill:#ffa94d}}
</style>`

// series is one colour of bars.
type series struct {
	name    string
	results map[string]result
}

// plot renders the report as SVG.
func (r *report) plot() string {
	all := r.series()
	names := r.workloads()
	low, high := plotRange(all)
	x := func(v float64) float64 {
		return plotLeft + (plotWidth-plotLeft-plotRight)*(math.Log10(v)-low)/(high-low)
	}
	groupHeight := len(all)*(barHeight+barGap) + groupGap
	height := plotTop + len(names)*groupHeight + plotBottom
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="Server CPU per request">`, plotWidth, height)
	b.WriteString(plotStyle)
	fmt.Fprintf(&b, `<text class="t" x="16" y="26">Server CPU a request, milliseconds (logarithmic)</text>`)
	plotLegend(&b, all)
	for tick := low; tick <= high; tick++ {
		v := math.Pow(10, tick)
		fmt.Fprintf(&b, `<line class="g" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, x(v), plotTop-6, x(v), height-plotBottom+4)
		fmt.Fprintf(&b, `<text class="s" x="%.1f" y="%d" text-anchor="middle">%g</text>`, x(v), height-plotBottom+20, v)
	}
	for i, name := range names {
		y := plotTop + i*groupHeight
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, plotLeft-12, y+groupHeight/2-groupGap/2+4, html.EscapeString(name))
		for j, s := range all {
			plotBar(&b, s, name, j, y+j*(barHeight+barGap), x)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// series are the servers and the floor.
func (r *report) series() []series {
	var all []series
	add := func(name string, results []result) {
		s := series{name: name, results: map[string]result{}}
		for _, res := range results {
			if res.Error == "" && res.Server != nil && res.Server.CPUMillis > 0 {
				s.results[res.Workload] = res
			}
		}
		all = append(all, s)
	}
	for _, s := range r.Servers {
		add(s.Name, s.Results)
	}
	if len(r.Floor) > 0 {
		add("Go's HTTP server, same bytes from memory", r.Floor)
	}
	return all
}

// plotRange is the axis in powers of ten around all values.
func plotRange(all []series) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, s := range all {
		for _, res := range s.results {
			v := math.Log10(res.Server.CPUMillis)
			low, high = math.Min(low, math.Floor(v)), math.Max(high, math.Ceil(v))
		}
	}
	if low >= high {
		return 0, 1
	}
	return low, high
}

func plotLegend(b *strings.Builder, all []series) {
	const letter, box = 7.2, 30
	at := 16.0
	for i, s := range all {
		fmt.Fprintf(b, `<rect class="b%d" x="%.1f" y="38" width="12" height="12" rx="2"/><text class="s" x="%.1f" y="48">%s</text>`,
			i%3, at, at+18, html.EscapeString(s.name))
		at += box + letter*float64(len(s.name))
	}
}

func plotBar(b *strings.Builder, s series, workload string, colour, y int, x func(float64) float64) {
	res, ok := s.results[workload]
	if !ok {
		return
	}
	v := res.Server.CPUMillis
	end := math.Max(x(v), plotLeft+2)
	fmt.Fprintf(b, `<rect class="b%d" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`, colour%3, plotLeft, y, end-plotLeft, barHeight)
	fmt.Fprintf(b, `<text class="s" x="%.1f" y="%d">%s</text>`, end+6, y+barHeight-3, formatNumber(v))
}
