package model

import (
	_ "embed"
	"html/template"
	"math"
	"strings"

	"github.com/millrace/millrace/internal/tool/display"
)

//go:embed page.html
var pageTemplate string

// htmlPage is the data of the page's template. The template escapes all text.
type htmlPage struct {
	*Report
	CPU, Memory []barGroup
	Names       []string // of constants
}

// barGroup has the bars of one size.
type barGroup struct {
	Nodes string
	Bars  []bar
}

// bar is a bar on a logarithmic scale. Length is in thousandths of the longest bar, and Class is
// the CSS class of its colour.
type bar struct {
	Label, Value string
	Length       int
	Class        string
}

// writeHTML writes a report to a file as one HTML page, which loads nothing from elsewhere.
func (r *Report) writeHTML(name string) error {
	return display.WritePage(name, pageTemplate, template.FuncMap{
		"whole": formatWhole, "number": formatNumber, "value": formatValue,
		"sent":     func(u ProcessUsage) float64 { return u.sentPerProcess() },
		"tree":     treeText,
		"cpu":      tiersCPU,
		"last":     func(tiers []ProcessUsage) ProcessUsage { return tiers[len(tiers)-1] },
		"join":     func(texts []string) string { return strings.Join(texts, ", ") },
		"letter":   func(figures string) string { return string(origins()[figures][:1]) },
		"constant": func(name string) Constant { return r.Constants[name] },
	}, r.page())
}

// page returns the data of the page.
func (r *Report) page() *htmlPage {
	return &htmlPage{
		Report: r, Names: r.Constants.names(),
		CPU:    r.bars(formatNumber, func(u *Usage) float64 { return u.Servers.CPU }),
		Memory: r.bars(formatBytes, func(u *Usage) float64 { return u.Servers.StormBytes }),
	}
}

// bars returns the bars of a figure of the API servers, at all sizes.
func (r *Report) bars(format func(float64) string, value func(*Usage) float64) []barGroup {
	smallest, largest := math.Inf(1), 0.0
	for i := range r.Sizes {
		for j := range r.Sizes[i].Results {
			v := value(r.Sizes[i].Results[j].Usage)
			smallest, largest = min(smallest, v), max(largest, v)
		}
	}
	low := math.Floor(math.Log10(smallest))
	span := max(1e-9, math.Log10(largest)-low)
	groups := make([]barGroup, len(r.Sizes))
	for i := range r.Sizes {
		groups[i].Nodes = formatWhole(r.Sizes[i].Nodes)
		for j := range r.Sizes[i].Results {
			e := &r.Sizes[i].Results[j]
			v := value(e.Usage)
			groups[i].Bars = append(groups[i].Bars, bar{
				Label: e.Setup.Name, Value: format(v), Length: int(max(4, 1000*(math.Log10(v)-low)/span)),
				Class: map[string]string{kubernetes: "f2", millrace: "f1"}[e.Setup.Server],
			})
		}
	}
	return groups
}

// treeText returns the numbers of replicas by depth, as in "16 + 512".
func treeText(tiers []ProcessUsage) string {
	counts := make([]string, len(tiers))
	for i := range tiers {
		counts[i] = formatWhole(float64(tiers[i].Processes))
	}
	return strings.Join(counts, " + ")
}

// tiersCPU returns the CPU of all tiers together.
func tiersCPU(tiers []ProcessUsage) (cpu float64) {
	for i := range tiers {
		cpu += tiers[i].CPU
	}
	return cpu
}
