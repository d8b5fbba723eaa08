package papers

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/test/support/benchtest"
)

// sampleReport returns a report of paper c with rows, charts and a failed step.
func sampleReport(t *testing.T) *Report {
	t.Helper()
	informers := func(name, version string, factor float64) map[string]any {
		one := func(n int, lists bool) map[string]any {
			return map[string]any{"informers": n, "lists": lists, "idleBytes": 300e6 * factor, "peakBytes": 500e6 * factor * float64(n), "cpuSeconds": 2 * factor, "medianSeconds": 4,
				"memory": []testbed.MemorySample{{Seconds: 0, RSSBytes: int64(300e6 * factor)}, {Seconds: 2, RSSBytes: int64(500e6 * factor)}, {Seconds: 4, RSSBytes: int64(400e6 * factor)}}}
		}
		return map[string]any{"name": name, "version": version, "informers": []any{one(1, true), one(16, true), one(16, false), map[string]any{"workload": "watchlist-4", "informers": 4, "restarts": 2}, map[string]any{"workload": "watchlist-64", "informers": 64, "error": "it ended too <early>\nlog"}}}
	}
	text, err := json.Marshal(map[string]any{"servers": []any{
		informers("millrace", "v1.37.2+millrace", 1), informers("kubernetes", "v1.37.2", 3), informers("kube-apiserver", "v1.37.2", 2.5),
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := &Report{
		LoadAverages: []string{"0.10", "2.30"},
		Paper:        "c", Scale: 0.1, Seed: 1, Millrace: "v1", Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Machine: testbed.Machine{Cores: 2, CPU: "Model <1>", MemoryBytes: 25e9, Kernel: "6.1", Go: "go1.26"},
		Steps: []StepReport{
			{Name: "informers", Args: []string{"watch", "--informers=1,16", "--server-arg=--a b"}, Seconds: 100, Printed: text},
			{Name: "another", Args: []string{"list"}, Seconds: 1, Error: "it <broke>"},
		},
	}
	if err := r.complete(); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRenderGolden(t *testing.T) {
	r := sampleReport(t)
	page := filepath.Join(t.TempDir(), "page.html")
	if err := r.writePage(page); err != nil {
		t.Fatal(err)
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	benchtest.CheckGolden(t, map[string]string{"table": r.text("table"), "markdown": r.text("markdown"), "page": string(html)})
	if err := r.failure(); err == nil || err.Error() != "1 step failed, see the report" {
		t.Errorf("got %v", err)
	}
}

// TestPublishedFigures checks that a published figure stays out of the plot if it was measured with
// other counts.
func TestPublishedFigures(t *testing.T) {
	for scale, want := range map[float64]float64{1: 18.3, 0.5: 0} {
		s := readPaper(t, "a", scale).Sections[0].section(nil)
		if len(s.Rows) != 2 || s.Rows[0].PublishedValue != want {
			t.Errorf("scale %g: got %+v", scale, s.Rows)
		}
	}
}

func TestRatio(t *testing.T) {
	for _, c := range []struct {
		unit        Unit
		other, ours float64
		want        string
	}{
		{unitSeconds, 10, 2, "5.00×"}, {unitRate, 10, 2, "0.200×"}, {unitRate, 2, 10, "5.00×"}, {unitSeconds, 0, 2, ""}, {unitCount, 1, 2, ""},
	} {
		if got := c.unit.ratio(c.other, c.ours); got != c.want {
			t.Errorf("%s of %g and %g: got %q", c.unit, c.other, c.ours, got)
		}
	}
}
