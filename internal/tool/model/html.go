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

// htmlPage is what the template of the page sees. The template escapes all text.
type htmlPage struct {
	*Report
	CPU, Memory []barGroup
	Names       []string // of constants
}

type barGroup struct {
	Nodes string
	Bars  []bar
}

// bar is as long as the logarithm of its value, in thousandths of the longest. Class is its
// colour.
type bar struct {
	Label, Value string
	Length       int
	Class        string
}

// writeHTML writes a report as one page, which loads nothing.
func (r *Report) writeHTML(name string) error {
	return display.WritePage(name, pageTemplate, template.FuncMap{
		"people": people, "number": number, "value": formatValue,
		"each":     func(u ProcessUsage) float64 { return u.SentBytes / float64(u.Processes) },
		"tree":     treeText,
		"cpu":      tiersCPU,
		"last":     func(tiers []ProcessUsage) ProcessUsage { return tiers[len(tiers)-1] },
		"join":     func(all []string) string { return strings.Join(all, ", ") },
		"letter":   func(of string) string { return string(origins()[of][:1]) },
		"constant": func(name string) Constant { return r.Constants[name] },
	}, r.page())
}

func (r *Report) page() *htmlPage {
	return &htmlPage{
		Report: r, Names: r.Constants.names(),
		CPU:    r.bars(number, func(u *Usage) float64 { return u.Servers.CPU }),
		Memory: r.bars(func(v float64) string { return display.Size(v) }, func(u *Usage) float64 { return u.Servers.BegunBytes }),
	}
}

// bars draws a figure of the API servers at all sizes.
func (r *Report) bars(format func(float64) string, value func(*Usage) float64) []barGroup {
	least, most := math.Inf(1), 0.0
	for i := range r.Sizes {
		for j := range r.Sizes[i].Results {
			v := value(r.Sizes[i].Results[j].Usage)
			least, most = min(least, v), max(most, v)
		}
	}
	low := math.Floor(math.Log10(least))
	span := max(1e-9, math.Log10(most)-low)
	groups := make([]barGroup, len(r.Sizes))
	for i := range r.Sizes {
		groups[i].Nodes = people(r.Sizes[i].Nodes)
		for j := range r.Sizes[i].Results {
			e := &r.Sizes[i].Results[j]
			v := value(e.Usage)
			class := map[string]string{kubernetes: "f2", millrace: "f1"}[e.Setup.Server]
			groups[i].Bars = append(groups[i].Bars, bar{Label: e.Setup.Name, Value: format(v), Length: int(max(4, 1000*(math.Log10(v)-low)/span)), Class: class})
		}
	}
	return groups
}

func treeText(tiers []ProcessUsage) string {
	counts := make([]string, len(tiers))
	for i := range tiers {
		counts[i] = people(float64(tiers[i].Processes))
	}
	return strings.Join(counts, " + ")
}

func tiersCPU(tiers []ProcessUsage) (cpu float64) {
	for i := range tiers {
		cpu += tiers[i].CPU
	}
	return cpu
}
