package provision

import (
	"math"
	"slices"
)

// pathGroup is all turns of one path.
type pathGroup struct {
	title string
	turns []*result
}

// groups are the paths in the order of their first turns.
func (r *report) groups() (all []*pathGroup) {
	for i := range r.Results {
		res := &r.Results[i]
		at := slices.IndexFunc(all, func(g *pathGroup) bool { return g.title == res.title() })
		if at < 0 {
			at = len(all)
			all = append(all, &pathGroup{title: res.title()})
		}
		all[at].turns = append(all[at].turns, res)
	}
	return all
}

// median is that of one figure, of the turns that have it. It is NaN if none has. Of an even
// number it is the lower one of the two in the middle.
func (g *pathGroup) median(of func(*result) float64) float64 {
	var values []float64
	for _, res := range g.turns {
		if v := of(res); !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}

// failed is the error of a path of which no turn was measured, or empty.
func (g *pathGroup) failed() (last string) {
	for _, res := range g.turns {
		if last = res.Error; last == "" {
			return ""
		}
	}
	return last
}
