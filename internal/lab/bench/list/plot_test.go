package list

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/lab/bench/load"
	"github.com/millrace/millrace/internal/tool/render"
	"github.com/millrace/millrace/test/support/benchtest"
)

func TestPlotIsWellFormedAndComplete(t *testing.T) {
	cost := func(ms float64) *load.ServerCost { return &load.ServerCost{CPUMillis: ms} }
	r := &report{
		Servers: []serverReport{
			{Name: "millrace", Results: []load.Result{{Workload: "pods <json>", Server: cost(29.3)}, {Workload: "get", Server: cost(0.29)}}},
			{Name: "kubernetes", Results: []load.Result{{Workload: "pods <json>", Server: cost(421)}, {Workload: "get", Error: "timeout"}}},
		},
		Floor: []load.Result{{Workload: "pods <json>", Server: cost(22.9)}},
	}
	file := filepath.Join(t.TempDir(), "report.json")
	var saved strings.Builder
	if err := r.Write(&saved, "json"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(saved.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	read := &report{}
	if err := render.ReadReport(file, read); err != nil {
		t.Fatal(err)
	}
	svg := benchtest.WellFormedSVG(t, read.comparison().Plot())
	for _, want := range []string{"pods &lt;json&gt;", ">29.3<", ">421<", ">22.9<", ">0.290<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("plot lacks %s", want)
		}
	}
	if bars := strings.Count(svg, `height="14" rx`); bars != 4 {
		t.Errorf("plot has %d bars, want one for each of 4 measurements", bars)
	}
}
