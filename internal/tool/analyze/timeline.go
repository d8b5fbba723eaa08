package analyze

import "time"

// timeline counts requests over the period of a log, in up to maxMoments steps. A step is a second
// at first. The timeline doubles it when there are too many steps.
type timeline struct {
	step    int64 // microseconds, 0 before the first request
	origin  int64 // beginning of the first step, in microseconds since 1970
	moments []momentCounts
}

type momentCounts struct{ requests, lists, watches uint64 }

const maxMoments = 240

// add counts a request at a time, in microseconds since 1970. Requests from before the origin count
// in the first step.
func (t *timeline) add(now int64, verb string) {
	if t.step == 0 {
		t.step = 1e6
		t.origin = now - now%t.step
	}
	i := max(0, (now-t.origin)/t.step)
	for i >= maxMoments {
		t.double()
		i = max(0, (now-t.origin)/t.step)
	}
	for int64(len(t.moments)) <= i {
		t.moments = append(t.moments, momentCounts{})
	}
	m := &t.moments[i]
	m.requests++
	switch verb {
	case "list":
		m.lists++
	case "watch":
		m.watches++
	}
}

// double doubles the step, and joins the counts of pairs of steps.
func (t *timeline) double() {
	t.step *= 2
	half := t.moments[:0]
	for i := 0; i < len(t.moments); i += 2 {
		m := t.moments[i]
		if i+1 < len(t.moments) {
			next := t.moments[i+1]
			m.requests += next.requests
			m.lists += next.lists
			m.watches += next.watches
		}
		half = append(half, m)
	}
	t.moments = half
}

// reportMoments returns the steps as a report has them.
func (t *timeline) reportMoments() []Moment {
	all := make([]Moment, len(t.moments))
	for i, m := range t.moments {
		all[i] = Moment{Time: time.UnixMicro(t.origin + int64(i)*t.step).UTC(), Requests: m.requests, Lists: m.lists, Watches: m.watches}
	}
	return all
}
