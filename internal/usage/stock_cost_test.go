package usage_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace/millrace/internal/report"
	"github.com/millrace/millrace/internal/usage"
)

// stockFigures are what "bench" has measured of the stock read path.
type stockFigures struct {
	Servers []struct {
		Name    string
		Results []struct {
			Workload string
			Bytes    uint64
			Server   struct {
				CPUMillis float64
				NetMicros float64 `json:"netCPUMicrosPerEvent"`
			}
		}
	}
}

func readFigures(t *testing.T, name string) (figures stockFigures) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "bench", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &figures); err != nil {
		t.Fatal(err)
	}
	return figures
}

// TestStockCPUIsALowerBound compares the estimate with all measured requests and events, of
// which the nearest must be near.
func TestStockCPUIsALowerBound(t *testing.T) {
	check := func(file string, estimate func(bytes uint64) float64, measured func(cpuMillis, netMicros float64) float64, few map[string]bool) {
		nearest, n := 0.0, 0
		for _, s := range readFigures(t, file).Servers {
			if s.Name != "kubernetes" {
				continue
			}
			for _, r := range s.Results {
				seconds := measured(r.Server.CPUMillis, r.Server.NetMicros)
				if few != nil && !few[r.Workload] {
					continue
				}
				n++
				ratio := estimate(r.Bytes) / seconds
				if nearest = max(nearest, ratio); ratio > 1 {
					t.Errorf("%s: %s is estimated at %g times of what was measured", file, r.Workload, ratio)
				}
			}
		}
		if n < 3 || nearest < 0.75 {
			t.Errorf("%s: of %d figures the nearest estimate is %g of what was measured", file, n, nearest)
		}
	}
	check("list.json", func(bytes uint64) float64 {
		return usage.StockCPU(&report.SparedWork{Requests: 1, RequestBytes: bytes})
	},
		func(cpuMillis, _ float64) float64 { return cpuMillis / 1e3 }, nil)
	// The others have few events for each write, so that nearly all of their CPU is the writes'.
	check("watch-1.37.json", func(uint64) float64 { return usage.StockCPU(&report.SparedWork{Events: 1}) },
		func(_, netMicros float64) float64 { return netMicros / 1e6 },
		map[string]bool{"all-h2-20": true, "all-h2-1000": true, "all-h1": true, "gzip": true, "stalled": true})
}

func TestAnsweredLeavesOutWhatWasPassedOn(t *testing.T) {
	accounts, _ := newAccounts(usage.Config{})
	for range 3 {
		r := podList("alice")
		accounts.Observe(&r)
	}
	passedOn := podList("alice")
	passedOn.Shape.Path, passedOn.Shape.Reason = report.PathPassedOn, "accept"
	accounts.Observe(&passedOn)
	if requests, bytes := accounts.Answered(); requests != 3 || bytes != 3000 {
		t.Errorf("%d requests of %d bytes, want 3 of 3000", requests, bytes)
	}
}
