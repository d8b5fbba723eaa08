package verify

import (
	"maps"
	"slices"
	"strings"
)

// reachableState is a state of the read API that a run can see: a request and an outcome.
type reachableState struct {
	Request
	outcome string
}

func (s *reachableState) String() string { return s.state(s.outcome) }

// reachable are the states of the read API that a run can see.
func reachable() (states []reachableState) {
	add := func(req Request, outcomes ...string) {
		for _, outcome := range outcomes {
			states = append(states, reachableState{req, outcome})
		}
	}
	for _, class := range []versionClass{unset, zero, known} {
		for _, form := range forms {
			add(Request{Verb: "get", Class: class, Select: selectAll, Form: form}, outcomeOK, outcomeNotFound)
		}
	}
	for _, req := range append(readRequests(), watchRequests()...) {
		switch {
		case req.Class == gone:
			add(req, outcomeGone)
		case req.Class == future:
			add(req, outcomeTimeout)
		default:
			add(req, outcomeOK)
		}
		if req.Limit > 0 && req.Class != zero && req.Select != selectField {
			add(req, outcomePages)
		}
	}
	return states
}

// Percent is the share of states that were seen, and 100 only if none is missing.
func (c *Coverage) Percent() int { return 100 * c.Seen / max(1, c.Reachable) }

// Coverage is the scorecard: which states of the read API a run has seen.
type Coverage struct {
	Seen      int `json:"seen"`
	Reachable int `json:"reachable"`
	// Missing are states that were not seen, and Others those that were seen and are none of
	// the reachable ones: errors above all.
	Missing []string       `json:"missing,omitempty"`
	Others  map[string]int `json:"others,omitempty"`
	// Columns are the selectors and encodings, and Rows all the rest of a state.
	Columns []string      `json:"columns"`
	Rows    []CoverageRow `json:"rows"`
}

// CoverageRow is a request with its outcome.
type CoverageRow struct {
	Request string `json:"request"`
	Outcome string `json:"outcome"`
	// Seen has a count for each column. It is -1 where there is no such state, or none that
	// this cluster has.
	Seen []int `json:"seen"`
}

// coverage compares the states that were seen with the reachable ones. If no LIST or no watch
// of an expired revision got 410, the cluster has not compacted anything that these need, and
// they are not counted.
func coverage(seen map[string]int) Coverage {
	c := Coverage{Others: maps.Clone(seen)}
	for _, s := range selectors {
		for _, f := range forms {
			c.Columns = append(c.Columns, string(s)+", "+string(f))
		}
	}
	all := reachable()
	compacted := map[string]bool{}
	for i := range all {
		if s := &all[i]; s.Class == gone && seen[s.String()] > 0 {
			compacted[s.Verb] = true
		}
	}
	for i := range all {
		state := all[i].String()
		delete(c.Others, state)
		if all[i].Class == gone && !compacted[all[i].Verb] {
			continue
		}
		c.Reachable++
		*c.cell(&all[i]) = seen[state]
		if seen[state] > 0 {
			c.Seen++
		} else {
			c.Missing = append(c.Missing, state)
		}
	}
	slices.Sort(c.Missing)
	return c
}

// cell is the place of a state. It makes the row if there is none.
func (c *Coverage) cell(s *reachableState) *int {
	column := slices.Index(selectors, s.Select)*len(forms) + slices.Index(forms, s.Form)
	row := s.Request
	row.Select, row.Form = selectAll, formJSON
	request, _, _ := strings.Cut(row.state(s.outcome), " → ")
	i := slices.IndexFunc(c.Rows, func(r CoverageRow) bool { return r.Request == request && r.Outcome == s.outcome })
	if i < 0 {
		i = len(c.Rows)
		c.Rows = append(c.Rows, CoverageRow{request, s.outcome, slices.Repeat([]int{-1}, len(c.Columns))})
	}
	return &c.Rows[i].Seen[column]
}
