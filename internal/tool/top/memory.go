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
	p.line(plain, fmt.Sprintf("wire cache %s of %s, %s goroutines", display.Size(m.Wire), display.Size(m.WireLimit),
		display.Count(m.Goroutines)))
	p.blank()
	type resource = serverreport.ResourceMemory
	drawTable(p, m.Resources, []field[resource]{
		textField("RESOURCE", 50, func(r *resource) cell { return name(r.Resource) }),
		numberField("OBJECTS", func(r *resource) cell { return count(r.Objects) }),
		numberField("TOTAL", func(r *resource) cell { return size(r.Values + r.Log + wireBytes(r)) }),
		numberField("VALUES", func(r *resource) cell { return size(r.Values) }),
		numberField("LOG", func(r *resource) cell { return size(r.Log) }),
		numberField("WIRE", func(r *resource) cell { return size(wireBytes(r)) }),
		textField("FORMS", 50, func(r *resource) cell { return name(formsText(r.Forms)) }),
		textField("INDEXES", 50, func(r *resource) cell { return name(strings.Join(r.Indexes, ", ")) }),
	})
}

// wireBytes returns the size of a resource's objects in the wire cache.
func wireBytes(r *serverreport.ResourceMemory) (bytes int64) {
	for _, n := range r.Forms {
		bytes += n
	}
	return bytes
}

// formsText returns forms of encoded objects with their sizes in bytes, the largest first.
func formsText(forms map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(forms), func(a, b string) int {
		return cmp.Or(cmp.Compare(forms[b], forms[a]), cmp.Compare(a, b))
	})
	for i, form := range names {
		names[i] = form + " " + display.Size(forms[form])
	}
	return strings.Join(names, ", ")
}

// drawCRDs draws the memory of definitions of custom resources and of their objects.
func drawCRDs(p *page, c *serverreport.CRDsReport) {
	p.line(bold, fmt.Sprintf("%s definitions, %s in use, %s compiled: %s of %s",
		display.Count(c.Definitions), display.Count(c.Served), display.Count(c.Compiled), display.Size(c.CompiledBytes), display.Size(c.CompiledLimit)))
	p.blank()
	type definition = serverreport.CRDCost
	drawTable(p, c.Top, []field[definition]{
		textField("DEFINITION", 60, func(d *definition) cell { return name(d.Name) }),
		numberField("OBJECTS", func(d *definition) cell { return count(d.Objects) }),
		numberField("TOTAL", func(d *definition) cell { return size(d.DefinitionBytes + d.ObjectBytes + d.CompiledBytes) }),
		numberField("DEFINITION", func(d *definition) cell { return size(d.DefinitionBytes) }),
		numberField("OBJECTS' BYTES", func(d *definition) cell { return size(d.ObjectBytes) }),
		numberField("COMPILED", func(d *definition) cell { return size(d.CompiledBytes) }),
		textField("CONVERSION", 0, func(d *definition) cell {
			if d.Webhook {
				return text("webhook")
			}
			return text("none")
		}),
	})
}
