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

func (s *reachableState) String() string { return s.stateName(s.outcome) }

// reachableStates returns the states of the read API that a run can see.
func reachableStates() (states []reachableState) {
	add := func(req Request, outcomes ...string) {
		for _, outcome := range outcomes {
			states = append(states, reachableState{req, outcome})
		}
	}
	for _, class := range []versionClass{versionUnset, versionZero, versionSeen} {
		for _, encoding := range encodings {
			add(Request{Verb: "get", Class: class, Select: selectAll, Encoding: encoding}, outcomeOK, outcomeNotFound)
		}
	}
	for _, req := range append(readRequests(), watchRequests()...) {
		switch {
		case req.Class == versionExpired:
			add(req, outcomeGone)
		case req.Class == versionFuture:
			add(req, outcomeTimeout)
		default:
			add(req, outcomeOK)
		}
		if req.Limit > 0 && req.Class != versionZero && req.Select != selectField {
			add(req, outcomePages)
		}
	}
	return states
}

// Percent returns the percentage of reachable states that were seen, rounded down: it is 100
// only if no state is missing.
func (c *Coverage) Percent() int { return 100 * c.Seen / max(1, c.Reachable) }

// Coverage is the scorecard: which states of the read API a run has seen.
type Coverage struct {
	Seen      int `json:"seen"`
	Reachable int `json:"reachable"`
	// Missing has the reachable states that were not seen. Others counts states that were seen
	// and are not reachable: most are errors.
	Missing []string       `json:"missing,omitempty"`
	Others  map[string]int `json:"others,omitempty"`
	// Columns has the pairs of selector and encoding. Rows has what else a state consists of.
	Columns []string      `json:"columns"`
	Rows    []CoverageRow `json:"rows"`
}

// CoverageRow is a request with its outcome, for all selectors and encodings.
type CoverageRow struct {
	Request string `json:"request"`
	Outcome string `json:"outcome"`
	// Seen has a count for each column. It is -1 where there is no such state, or where this
	// cluster has none.
	Seen []int `json:"seen"`
}

// newCoverage compares the states that were seen, with their counts, with the reachable ones.
// If no LIST of an expired revision got 410, the cluster has compacted nothing that these
// LISTs need, and they are not counted. The same holds for watches.
func newCoverage(seen map[string]int) Coverage {
	c := Coverage{Others: maps.Clone(seen)}
	for _, selector := range selectors {
		for _, encoding := range encodings {
			c.Columns = append(c.Columns, string(selector)+", "+string(encoding))
		}
	}
	all := reachableStates()
	compacted := map[string]bool{}
	for i := range all {
		if s := &all[i]; s.Class == versionExpired && seen[s.String()] > 0 {
			compacted[s.Verb] = true
		}
	}
	for i := range all {
		state := all[i].String()
		delete(c.Others, state)
		if all[i].Class == versionExpired && !compacted[all[i].Verb] {
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

// cell returns the count of a state, to be set. It adds the row if there is none.
func (c *Coverage) cell(s *reachableState) *int {
	column := slices.Index(selectors, s.Select)*len(encodings) + slices.Index(encodings, s.Encoding)
	row := s.Request
	row.Select, row.Encoding = selectAll, encodingJSON
	request, _, _ := strings.Cut(row.stateName(s.outcome), " → ")
	i := slices.IndexFunc(c.Rows, func(r CoverageRow) bool { return r.Request == request && r.Outcome == s.outcome })
	if i < 0 {
		i = len(c.Rows)
		c.Rows = append(c.Rows, CoverageRow{request, s.outcome, slices.Repeat([]int{-1}, len(c.Columns))})
	}
	return &c.Rows[i].Seen[column]
}
