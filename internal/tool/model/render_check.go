package model

import (
	"fmt"

	"github.com/millrace/millrace/internal/tool/display"
	"github.com/millrace/millrace/internal/tool/render"
)

// comparisonText returns the comparisons as a table with notes.
func comparisonText(format string, all []Comparison) string {
	t := &render.Table{Columns: render.ColumnsOf("row", "figure", "model", "measured", "difference", "")}
	checked, far := 0, 0
	for i := range all {
		c := &all[i]
		verdict := "calibration"
		if c.Check {
			verdict = "check"
			checked++
			if !c.IsClose() {
				far++
			}
		}
		if !c.IsClose() {
			verdict += ", far"
		}
		t.Add(c.Row, c.Figure, formatValue(c.Model, c.Unit), formatValue(c.Measured, c.Unit),
			fmt.Sprintf("%+.0f %%", 100*c.Deviation()), verdict)
	}
	return render.Document(format, t, nil, []string{
		"tree.json, simulated: depth 0: informers read at the root; figures of a depth are sums of its replicas; all " +
			"processes share the processors",
		"servers.json, computed: CPU of a LIST of all",
		fmt.Sprintf("check: no price comes from these rows; %d of %d figures are within %.0f %%", checked-far, checked, 100*tolerance),
	})
}

// formatValue returns a value with the unit of a Constant.
func formatValue(v float64, unit string) string {
	switch unit {
	case "s":
		return display.Seconds(v)
	case "B":
		return display.Size(v)
	case "s/B":
		return fmt.Sprintf("%.3g ns/B", v*1e9)
	case "1":
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%.3g %s", v, unit)
}

// text returns the constants as a table.
func (c Constants) text(format string) string {
	t := &render.Table{Columns: render.ColumnsOf("constant", "value", "origin", "of", "from")}
	for _, name := range c.names() {
		x := c[name]
		t.Add(name, formatValue(x.Value, x.Unit), string(x.Origin), x.Meaning, x.Source)
	}
	return render.Document(format, t, nil, []string{"seconds are of one processor; reports are those of docs/bench, or of --reports"})
}
