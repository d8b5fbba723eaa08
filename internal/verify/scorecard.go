package verify

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	exact        = string(metav1.ResourceVersionMatchExact)
	notOlderThan = string(metav1.ResourceVersionMatchNotOlderThan)
)

// Outcomes of requests in the scorecard.
const (
	outcomeOK       = "200"
	outcomePages    = "200, pages"
	outcomeNotFound = "404"
	outcomeGone     = "410"
	outcomeTimeout  = "504"
)

var (
	selectors = []selector{selectAll, selectLabel, selectField}
	forms     = []encoding{formJSON, formMetadata, formTable}
)

// listKinds are the ways to ask for a list's resource version that servers accept.
func listKinds() []Request {
	kinds := []Request{
		{Class: unset}, {Class: zero}, {Class: zero, Match: notOlderThan},
		{Class: known}, {Class: known, Match: notOlderThan}, {Class: known, Match: exact},
	}
	for _, kind := range kinds {
		kind.Limit = 1
		kinds = append(kinds, kind)
	}
	return append(kinds, Request{Class: future}, Request{Class: gone, Match: exact})
}

// readRequests are all LISTs of the scorecard. GETs are few and come anyway.
func readRequests() (all []Request) {
	for _, kind := range listKinds() {
		kind.Verb = "list"
		all = append(all, selected(kind)...)
	}
	return all
}

// watchRequests are all watches of the scorecard.
func watchRequests() (all []Request) {
	for _, class := range []versionClass{unset, zero, known} {
		for _, bookmarks := range []bool{false, true} {
			all = append(all, selected(Request{Verb: "watch", Class: class, Bookmarks: bookmarks})...)
			all = append(all, selected(Request{Verb: "watch", Class: class, Bookmarks: bookmarks, Initial: true, Match: notOlderThan})...)
		}
	}
	return append(all, selected(Request{Verb: "watch", Class: gone, Bookmarks: true})...)
}

// selected is a request with each selector and in each form.
func selected(req Request) (all []Request) {
	for _, req.Select = range selectors {
		for _, req.Form = range forms {
			all = append(all, req)
		}
	}
	return all
}

// deck hands out all requests in a random order, and begins again. It is safe for concurrent
// use.
type deck struct {
	mu   sync.Mutex
	rest []Request
	all  []Request
}

func newDeck(all []Request, random *rand.Rand) *deck {
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return &deck{all: all}
}

func (d *deck) next() Request {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.rest) == 0 {
		d.rest = d.all
	}
	req := d.rest[0]
	d.rest = d.rest[1:]
	return req
}

// reachable are the states of the read API that a run can see.
func reachable() (states []string) {
	for _, class := range []versionClass{unset, zero, known} {
		for _, form := range forms {
			req := Request{Verb: "get", Class: class, Form: form}
			states = append(states, req.state(outcomeOK), req.state(outcomeNotFound))
		}
	}
	for _, req := range append(readRequests(), watchRequests()...) {
		switch {
		case req.Class == gone:
			states = append(states, req.state(outcomeGone))
		case req.Class == future:
			states = append(states, req.state(outcomeTimeout))
		default:
			states = append(states, req.state(outcomeOK))
		}
		if req.Limit > 0 && req.Class != zero && req.Select != selectField {
			states = append(states, req.state(outcomePages))
		}
	}
	return states
}

// Coverage is the scorecard: which states of the read API a run has seen.
type Coverage struct {
	Seen      int `json:"seen"`
	Reachable int `json:"reachable"`
	// Missing are states that were not seen, and Others those that were seen and are none of
	// the reachable ones: errors above all.
	Missing []string       `json:"missing,omitempty"`
	Others  map[string]int `json:"others,omitempty"`
}

// coverage compares the states that were seen with the reachable ones. If no LIST or no watch
// of an expired revision got 410, the cluster has not compacted anything that these need, and
// they are not counted.
func coverage(seen map[string]int) Coverage {
	c := Coverage{Others: maps.Clone(seen)}
	compacted := map[string]bool{}
	expired := map[string]string{}
	for _, req := range append(readRequests(), watchRequests()...) {
		if req.Class == gone {
			state := req.state(outcomeGone)
			expired[state] = req.Verb
			compacted[req.Verb] = compacted[req.Verb] || seen[state] > 0
		}
	}
	for _, state := range reachable() {
		delete(c.Others, state)
		if verb, ok := expired[state]; ok && !compacted[verb] {
			continue
		}
		if c.Reachable++; seen[state] > 0 {
			c.Seen++
		} else {
			c.Missing = append(c.Missing, state)
		}
	}
	slices.Sort(c.Missing)
	return c
}
