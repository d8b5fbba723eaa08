package list

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/render"
)

// startReport is the cost of one start of a server, until it was ready.
type startReport struct {
	Millis    float64 `json:"millis"`
	CPUMillis float64 `json:"cpuMillis"`
	RSSBytes  int64   `json:"rssBytes"` // when the server was ready
	PeakBytes int64   `json:"peakBytes"`
}

// addStart adds the start of a server that has just become ready. It must be called before the
// first request that is measured.
func (s *serverReport) addStart(run *testbed.Server) error {
	ready, err := run.Meter().Read()
	if err != nil {
		return err
	}
	s.Starts = append(s.Starts, startReport{Millis: render.Millis(run.Startup), CPUMillis: render.Millis(ready.CPU), RSSBytes: ready.RSS,
		PeakBytes: ready.Peak})
	return nil
}

// startTable returns a table of the medians of each server's starts.
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

// figures returns one figure of all starts, sorted.
func figures(starts []startReport, figure func(startReport) float64) []float64 {
	sorted := make([]float64, len(starts))
	for i, s := range starts {
		sorted[i] = figure(s)
	}
	slices.Sort(sorted)
	return sorted
}

// median returns the median of sorted values. Of an even number it is the mean of the two in
// the middle.
func median(sorted []float64) float64 {
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
