package watch

import "slices"

// medians returns the medians of each workload's figures over all turns. resultsOf returns the
// results of a turn, which are of the same workloads in every turn. A workload that failed in one
// turn has failed.
func medians(turns []turnResults, resultsOf func(turnResults) []result) []result {
	results := slices.Clone(resultsOf(turns[0]))
	for i := range results {
		var all []result
		for _, turn := range turns {
			if res := resultsOf(turn)[i]; res.Error == "" {
				all = append(all, res)
			} else {
				results[i] = res
			}
		}
		if len(all) == len(turns) {
			results[i] = medianResult(all)
		}
	}
	return results
}

// medianResult returns the median of each figure of one workload. The other fields are the same in
// all turns: it takes them from the first.
func medianResult(all []result) result {
	res := all[0]
	figure := func(field func(*result) *float64) { *field(&res) = medianFigure(all, field) }
	figure(func(r *result) *float64 { return &r.OpenSeconds })
	figure(func(r *result) *float64 { return &r.WritesPerSec })
	figure(func(r *result) *float64 { return &r.BytesPerEvent })
	figure(func(r *result) *float64 { return &r.Millis.P50 })
	figure(func(r *result) *float64 { return &r.Millis.P90 })
	figure(func(r *result) *float64 { return &r.Millis.P99 })
	figure(func(r *result) *float64 { return &r.Millis.Max })
	figure(func(r *result) *float64 { return &r.ClientCPUMicros })
	res.Resumed = medianFigure(all, func(r *result) *int64 { return &r.Resumed })
	if res.Server == nil {
		return res
	}
	cost := *res.Server
	res.Server = &cost
	figure(func(r *result) *float64 { return &r.Server.OpenMicros })
	figure(func(r *result) *float64 { return &r.Server.CPUSeconds })
	figure(func(r *result) *float64 { return &r.Server.WriteMicros })
	figure(func(r *result) *float64 { return &r.Server.EventMicros })
	figure(func(r *result) *float64 { return &r.Server.AloneMicros })
	figure(func(r *result) *float64 { return &r.Server.NetMicros })
	cost.RSSBytes = medianFigure(all, func(r *result) *int64 { return &r.Server.RSSBytes })
	cost.PeakBytes = medianFigure(all, func(r *result) *int64 { return &r.Server.PeakBytes })
	return res
}

// medianFigure returns the median of one figure. For an even number of turns it is the mean of the
// two values in the middle.
func medianFigure[T int64 | float64](all []result, figure func(*result) *T) T {
	values := make([]T, len(all))
	for i := range all {
		values[i] = *figure(&all[i])
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}
