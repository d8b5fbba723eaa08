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
	s.Starts = append(s.Starts, startReport{
		Millis: render.Millis(run.Startup), CPUMillis: render.Millis(ready.CPU), RSSBytes: ready.RSS, PeakBytes: ready.Peak,
	})
	return nil
}

// startTable returns a table of the medians of each server's starts.
func (r *report) startTable() render.TitledTable {
	var servers []serverReport
	for _, s := range r.Servers {
		if len(s.Starts) > 0 {
			servers = append(servers, s)
		}
	}
	seconds := func(s startReport) float64 { return s.Millis / 1000 }
	cpu := func(s startReport) float64 { return s.CPUMillis / 1000 }
	rss := func(s startReport) float64 { return float64(s.RSSBytes) }
	peak := func(s startReport) float64 { return float64(s.PeakBytes) }
	var fields render.Fields[serverReport]
	fields.Add("server", func(s serverReport) string { return s.Name })
	fields.Add("starts", func(s serverReport) string { return fmt.Sprint(len(s.Starts)) })
	fields.Add("s", func(s serverReport) string { return render.FormatNumber(median(figures(s.Starts, seconds))) })
	fields.Add("CPU s", func(s serverReport) string { return render.FormatNumber(median(figures(s.Starts, cpu))) })
	fields.Add("CPU s min", func(s serverReport) string { return render.FormatNumber(figures(s.Starts, cpu)[0]) })
	fields.Add("CPU s max", func(s serverReport) string { return render.FormatNumber(figures(s.Starts, cpu)[len(s.Starts)-1]) })
	fields.Add("RSS ready", func(s serverReport) string { return render.FormatByteCount(median(figures(s.Starts, rss))) })
	fields.Add("peak", func(s serverReport) string { return render.FormatByteCount(median(figures(s.Starts, peak))) })
	return render.TitledTable{Title: "From the start of a server until it is ready, medians", Table: *fields.Table(servers)}
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

// median returns the median of sorted values: the mean of the two middle values if their number is
// even.
func median(sorted []float64) float64 {
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
