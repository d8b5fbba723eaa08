package slo

import (
	"cmp"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// maxPassedOnRows bounds the rows of watches that are passed on in a report.
const maxPassedOnRows = 100

// passedOnKey is what watches that are passed on are counted by.
type passedOnKey struct {
	client           serverreport.Client
	resource, reason string
}

// PassOn counts a watch that is passed on, until end is called. reason is the label of
// millrace_read_passed_on_total.
func (set *Watches) PassOn(client serverreport.Client, resource, reason string) (end func()) {
	if set == nil {
		return func() {}
	}
	key := passedOnKey{client: client.Clone(), resource: strings.Clone(resource), reason: reason}
	set.addPassedOn(key, 1)
	return func() { set.addPassedOn(key, -1) }
}

func (set *Watches) addPassedOn(key passedOnKey, n int) {
	set.mu.Lock()
	defer set.mu.Unlock()
	if set.mu.passedOn[key] += n; set.mu.passedOn[key] == 0 {
		delete(set.mu.passedOn, key)
	}
}

// passedOnWatches returns the number of watches that are passed on, and whose they are. Rows
// with most watches come first.
func (set *Watches) passedOnWatches() (total int, by []serverreport.PassedOnWatches) {
	set.mu.Lock()
	for key, n := range set.mu.passedOn {
		total += n
		by = append(by, serverreport.PassedOnWatches{Client: key.client, Resource: key.resource, Reason: key.reason, Watches: n})
	}
	set.mu.Unlock()
	slices.SortFunc(by, func(a, b serverreport.PassedOnWatches) int {
		return cmp.Or(cmp.Compare(b.Watches, a.Watches), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.UserAgent, b.UserAgent),
			cmp.Compare(a.User, b.User), cmp.Compare(a.Reason, b.Reason))
	})
	return total, by[:min(maxPassedOnRows, len(by))]
}
