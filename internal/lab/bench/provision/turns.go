package provision

import (
	"math"
	"slices"
)

// pathGroup has all turns of one path.
type pathGroup struct {
	title string
	turns []*result
}

// groups returns the paths in the order of their first turns.
func (r *report) groups() (all []*pathGroup) {
	for i := range r.Results {
		res := &r.Results[i]
		index := slices.IndexFunc(all, func(g *pathGroup) bool { return g.title == res.pathTitle() })
		if index < 0 {
			index = len(all)
			all = append(all, &pathGroup{title: res.pathTitle()})
		}
		all[index].turns = append(all[index].turns, res)
	}
	return all
}

// median returns the median of one figure over the turns that have it, or NaN if no turn has it. Of an
// even number it is the lower of the two values in the middle.
func (g *pathGroup) median(figure func(*result) float64) float64 {
	var values []float64
	for _, res := range g.turns {
		if v := figure(res); !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}

// lastError returns the error of the last turn if all turns have failed, else "".
func (g *pathGroup) lastError() (last string) {
	for _, res := range g.turns {
		if last = res.Error; last == "" {
			return ""
		}
	}
	return last
}
