package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tool/display"
)

// drawMemory draws the memory of the process, and of the cache by resource.
func drawMemory(p *page, m *serverreport.MemoryReport) {
	p.line(bold, fmt.Sprintf("%s of %s resident, heap %s", display.Size(m.Resident), display.Size(m.Limit), display.Size(m.Heap)))
	p.line(plain, fmt.Sprintf("wire cache %s of %s, %s goroutines", display.Size(m.Wire), display.Size(m.WireLimit), display.Count(m.Goroutines)))
	p.blank()
	rows := make([][]cell, 0, len(m.Resources))
	for _, r := range m.Resources {
		var wire int64
		forms := slices.SortedFunc(maps.Keys(r.Forms), func(a, b string) int { return cmp.Or(cmp.Compare(r.Forms[b], r.Forms[a]), cmp.Compare(a, b)) })
		for i, f := range forms {
			wire += r.Forms[f]
			forms[i] = f + " " + display.Size(r.Forms[f])
		}
		rows = append(rows, []cell{
			name(r.Resource), count(r.Objects), size(r.Values + r.Log + wire), size(r.Values), size(r.Log), size(wire),
			name(strings.Join(forms, ", ")), name(strings.Join(r.Indexes, ", ")),
		})
	}
	p.table([]column{
		{head: "RESOURCE", maxWidth: 50}, {head: "OBJECTS", right: true}, {head: "TOTAL", right: true}, {head: "VALUES", right: true}, {head: "LOG", right: true}, {head: "WIRE", right: true},
		{head: "FORMS", maxWidth: 50}, {head: "INDEXES", maxWidth: 50},
	}, rows)
}

// drawCRDs draws the memory of definitions of custom resources and of their objects.
func drawCRDs(p *page, c *serverreport.CRDsReport) {
	p.line(bold, fmt.Sprintf("%s definitions, %s in use, %s compiled: %s of %s",
		display.Count(c.Definitions), display.Count(c.Served), display.Count(c.Compiled), display.Size(c.CompiledBytes), display.Size(c.CompiledLimit)))
	p.blank()
	rows := make([][]cell, 0, len(c.Top))
	for _, d := range c.Top {
		conversion := "none"
		if d.Webhook {
			conversion = "webhook"
		}
		rows = append(rows, []cell{
			name(d.Name), count(d.Objects), size(d.DefinitionBytes + d.ObjectBytes + d.CompiledBytes),
			size(d.DefinitionBytes), size(d.ObjectBytes), size(d.CompiledBytes), text(conversion),
		})
	}
	p.table([]column{
		{head: "DEFINITION", maxWidth: 60}, {head: "OBJECTS", right: true}, {head: "TOTAL", right: true},
		{head: "DEFINITION", right: true}, {head: "OBJECTS' BYTES", right: true}, {head: "COMPILED", right: true}, {head: "CONVERSION"},
	}, rows)
}
