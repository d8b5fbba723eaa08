package analyze

import "time"

// timeline counts requests over the period of a log, in up to maxMoments steps. A step is a second
// at first. The timeline doubles it when there are too many steps. Steps start at multiples of
// their length, so the order of requests does not matter.
type timeline struct {
	step    int64 // microseconds, 0 before the first request
	first   int64 // number of the first step: its time divided by step
	moments []momentCounts
}

type momentCounts struct{ requests, lists, watches uint64 }

func (m *momentCounts) add(n momentCounts) {
	m.requests += n.requests
	m.lists += n.lists
	m.watches += n.watches
}

const maxMoments = 240

// add counts a request at a time, in microseconds since 1970.
func (t *timeline) add(now int64, verb string) {
	if t.step == 0 {
		t.step, t.first = 1e6, now/1e6
	}
	for !t.extend(now / t.step) {
		t.double()
	}
	m := momentCounts{requests: 1}
	switch verb {
	case "list":
		m.lists = 1
	case "watch":
		m.watches = 1
	}
	t.moments[now/t.step-t.first].add(m)
}

// extend adds steps up to the step with a number. It returns false if there would be too many
// steps.
func (t *timeline) extend(number int64) bool {
	first, end := min(t.first, number), max(t.first+int64(len(t.moments)), number+1)
	if end-first > maxMoments {
		return false
	}
	if end-first > int64(len(t.moments)) {
		moments := make([]momentCounts, end-first)
		copy(moments[t.first-first:], t.moments)
		t.first, t.moments = first, moments
	}
	return true
}

// double doubles the step, and joins the counts of pairs of steps.
func (t *timeline) double() {
	first := t.first / 2
	joined := make([]momentCounts, (t.first+int64(len(t.moments))-1)/2-first+1)
	for i, m := range t.moments {
		joined[(t.first+int64(i))/2-first].add(m)
	}
	t.step, t.first, t.moments = 2*t.step, first, joined
}

// reportMoments returns the steps as a report has them.
func (t *timeline) reportMoments() []Moment {
	moments := make([]Moment, len(t.moments))
	for i, m := range t.moments {
		moments[i] = Moment{
			Time:     time.UnixMicro((t.first + int64(i)) * t.step).UTC(),
			Requests: m.requests, Lists: m.lists, Watches: m.watches,
		}
	}
	return moments
}
