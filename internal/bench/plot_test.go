package bench

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPlotIsWellFormedAndComplete(t *testing.T) {
	cost := func(ms float64) *serverCost { return &serverCost{CPUMillis: ms} }
	r := &report{
		Servers: []serverReport{
			{Name: "millrace", Results: []result{{Workload: "pods <json>", Server: cost(29.3)}, {Workload: "get", Server: cost(0.29)}}},
			{Name: "kubernetes", Results: []result{{Workload: "pods <json>", Server: cost(421)}, {Workload: "get", Error: "timeout"}}},
		},
		Floor: []result{{Workload: "pods <json>", Server: cost(22.9)}},
	}
	file := filepath.Join(t.TempDir(), "report.json")
	var saved strings.Builder
	if err := r.write(&saved, "json"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(saved.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	read := &report{}
	if err := readReport(file, read); err != nil {
		t.Fatal(err)
	}
	svg := wellFormed(t, read.plot())
	for _, want := range []string{"pods &lt;json&gt;", ">29.3<", ">421<", ">22.9<", ">0.290<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("plot lacks %s", want)
		}
	}
	if bars := strings.Count(svg, `height="14" rx`); bars != 4 {
		t.Errorf("plot has %d bars, want one for each of 4 measurements", bars)
	}
}

// TestPlotOfMemory has all moments that a server came to, on an axis from 0.
func TestPlotOfMemory(t *testing.T) {
	r := sampleCRDReport()
	svg := wellFormed(t, r.plot())
	for _, want := range []string{"2000 definitions of 100 properties", "definitions deleted", ">800 MB<", ">310 MB<", ">0 B<", ">100 MB<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("plot lacks %s", want)
		}
	}
	if bars := strings.Count(svg, `height="14" rx`); bars != 8 {
		t.Errorf("plot has %d bars, want 6 and 2", bars)
	}
	r.Servers = nil
	wellFormed(t, r.plot())
}

// wellFormed is the plot as SVG, which must be XML.
func wellFormed(t *testing.T, p plot) string {
	t.Helper()
	svg := p.svg()
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return svg
		} else if err != nil {
			t.Fatalf("plot is not XML: %v\n%s", err, svg)
		}
	}
}

func TestReadReportRefusesWhatIsNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "table.txt")
	if err := os.WriteFile(file, []byte("workload  clients"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := readReport(file, &report{}); err == nil || !strings.Contains(err.Error(), "-o json") {
		t.Fatalf("readReport = %v, want an error that names -o json", err)
	}
}
