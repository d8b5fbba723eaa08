package list

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// startReport is what one start of a server took until it was ready.
type startReport struct {
	Millis    float64 `json:"millis"`
	CPUMillis float64 `json:"cpuMillis"`
	RSSBytes  int64   `json:"rssBytes"` // when it was ready
	PeakBytes int64   `json:"peakBytes"`
}

// addStart adds the start of a server that has just become ready.
func (s *serverReport) addStart(run *testbed.Server) error {
	ready, err := run.Meter().Read()
	if err != nil {
		return err
	}
	s.Starts = append(s.Starts, startReport{Millis: render.Millis(run.Startup), CPUMillis: render.Millis(ready.CPU), RSSBytes: ready.RSS, PeakBytes: ready.Peak})
	return nil
}

// startTable has the medians of the starts of each server.
func (r *report) startTable() render.TitledTable {
	t := render.TitledTable{
		Title: "From the start of a server until it is ready, medians",
		Table: render.Table{Columns: render.ColumnsOf("server", "starts", "s", "CPU s", "CPU s least", "most", "RSS ready", "peak")},
	}
	for _, s := range r.Servers {
		if len(s.Starts) == 0 {
			continue
		}
		cpu := figures(s.Starts, func(f startReport) float64 { return f.CPUMillis / 1000 })
		t.Table.Add(s.Name, fmt.Sprint(len(s.Starts)),
			render.FormatNumber(median(figures(s.Starts, func(f startReport) float64 { return f.Millis / 1000 }))),
			render.FormatNumber(median(cpu)), render.FormatNumber(cpu[0]), render.FormatNumber(cpu[len(cpu)-1]),
			render.FormatByteCount(median(figures(s.Starts, func(f startReport) float64 { return float64(f.RSSBytes) }))),
			render.FormatByteCount(median(figures(s.Starts, func(f startReport) float64 { return float64(f.PeakBytes) }))))
	}
	return t
}

// figures are one figure of all starts, in order of size.
func figures(starts []startReport, of func(startReport) float64) []float64 {
	sorted := make([]float64, len(starts))
	for i, s := range starts {
		sorted[i] = of(s)
	}
	slices.Sort(sorted)
	return sorted
}

// median is the mean of the two in the middle if there are an even number.
func median(sorted []float64) float64 {
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
