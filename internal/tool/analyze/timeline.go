package analyze

import "time"

// timeline counts requests over the period of a log, in a bounded number of steps. A step
// begins as a second and is doubled when there are too many.
type timeline struct {
	// step is in microseconds. origin is the beginning of the first step.
	step, origin int64
	moments      []momentCounts
}

type momentCounts struct{ requests, lists, watches uint64 }

const maxMoments = 240

// add counts a request. Requests before the first one are counted in the first step.
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

func (t *timeline) double() {
	t.step *= 2
	half := t.moments[:0]
	for i := 0; i < len(t.moments); i += 2 {
		m := t.moments[i]
		if i+1 < len(t.moments) {
			next := t.moments[i+1]
			m.requests, m.lists, m.watches = m.requests+next.requests, m.lists+next.lists, m.watches+next.watches
		}
		half = append(half, m)
	}
	t.moments = half
}

func (t *timeline) report() []Moment {
	all := make([]Moment, len(t.moments))
	for i, m := range t.moments {
		all[i] = Moment{Time: time.UnixMicro(t.origin + int64(i)*t.step).UTC(), Requests: m.requests, Lists: m.lists, Watches: m.watches}
	}
	return all
}
