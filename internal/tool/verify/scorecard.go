package verify

import (
	"math/rand/v2"
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
	all = append(all, selected(Request{Verb: "watch", Class: ahead})...)
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
