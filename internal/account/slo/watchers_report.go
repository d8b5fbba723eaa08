package slo

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// The states of a serverreport.Watcher.
const (
	stateInitial    = "initial"
	stateFollowing  = "following"
	stateClient     = "client"
	stateConnection = "connection"
)

const (
	// stuckAfter is the duration from which a write counts as waiting for the connection.
	stuckAfter = 50 * time.Millisecond
	// maxBehind bounds the rows of WatchersReport.Behind.
	maxBehind = 100
)

// Watchers returns the report that /debug/millrace/watchers serves.
func (set *Watches) Watchers() serverreport.WatchersReport {
	now := set.cfg.Clock.Now()
	result := serverreport.WatchersReport{Time: now, ByResource: []serverreport.ResourceWatchers{}}
	watches := set.watches()
	result.Watches = len(watches)
	perResource := map[*resourceAccount]*serverreport.ResourceWatchers{}
	sums := set.sumDelivered()
	result.Events, result.Bytes, result.Expired = sums.events, sums.bytes, sums.expired
	clients := map[serverreport.Client]struct{}{}
	selections := map[subscriptionKey]struct{}{}
	for _, w := range watches {
		clients[w.Client] = struct{}{}
		row := perResource[w.resource]
		if row == nil {
			row = w.resource.logRow(now)
			perResource[w.resource] = row
		}
		row.Watches++
		key := subscriptionKey{w.resource.name, w.Selection}
		if _, known := selections[key]; !known {
			selections[key] = struct{}{}
			row.Subscriptions++
		}
	}
	result.Clients, result.Subscriptions = len(clients), len(selections)
	for _, row := range perResource {
		result.ByResource = append(result.ByResource, *row)
	}
	slices.SortFunc(result.ByResource, func(a, b serverreport.ResourceWatchers) int {
		return cmp.Or(cmp.Compare(b.Watches, a.Watches), cmp.Compare(a.Resource, b.Resource))
	})
	behind := watchesBehind(watches, now)
	result.Waiting = len(behind)
	result.Behind = behind[:min(maxBehind, len(behind))]
	result.PassedOn, result.PassedOnBy = set.passedOnWatches()
	return result
}

// DeliveredTotals returns the events and bytes that were delivered to watches since the start.
// It includes deleted resources.
func (set *Watches) DeliveredTotals() (events, bytes uint64) {
	sums := set.sumDelivered()
	return sums.events, sums.bytes
}

// deliveredSums add up what was delivered to watches since the start. expired counts the calls
// of Watch.Expired.
type deliveredSums struct{ events, bytes, expired uint64 }

func (s *deliveredSums) add(r *resourceAccount) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.countPendingLocked()
	s.events, s.bytes, s.expired = s.events+r.mu.events, s.bytes+r.mu.bytes, s.expired+r.mu.expired
}

// sumDelivered counts what is pending, and returns the sums of all resources, with the ones that
// Forget dropped.
func (set *Watches) sumDelivered() deliveredSums {
	set.mu.Lock()
	sums, resources := set.mu.forgottenSums, slices.Collect(maps.Values(set.mu.resources))
	set.mu.Unlock()
	for _, r := range resources {
		sums.add(r)
	}
	return sums
}

// watches returns the open watches, in no order.
func (set *Watches) watches() []*Watch {
	set.mu.Lock()
	defer set.mu.Unlock()
	list := make([]*Watch, 0, len(set.mu.watches))
	for _, w := range set.mu.watches {
		list = append(list, w)
	}
	return list
}

// logRow returns a row with the size and the age of the resource's log.
func (r *resourceAccount) logRow(now time.Time) *serverreport.ResourceWatchers {
	row := &serverreport.ResourceWatchers{Resource: r.name}
	r.mu.Lock()
	history := r.mu.history
	r.mu.Unlock()
	if history == nil {
		return row
	}
	var oldest time.Time
	row.LogEvents, row.LogBytes, oldest = history.Size()
	if row.LogEvents > 0 {
		row.LogSeconds = max(0, now.Sub(oldest)).Seconds()
	}
	return row
}

// watchesBehind returns the watches that have a backlog or are still being sent initial events.
// Watches that lag most come first.
func watchesBehind(watches []*Watch, now time.Time) []serverreport.Watcher {
	behind := []serverreport.Watcher{}
	for _, w := range watches {
		row, followed := w.report(now)
		events, bytes, oldest := w.Backlog.Behind(followed)
		if events == 0 && w.sendAccount.Load() != nil {
			continue
		}
		row.BehindEvents, row.BehindBytes = events, bytes
		if !oldest.IsZero() {
			row.BehindSeconds = max(0, now.Sub(oldest)).Seconds()
		}
		row.State = w.state(now)
		behind = append(behind, row)
	}
	slices.SortFunc(behind, func(a, b serverreport.Watcher) int {
		return cmp.Or(cmp.Compare(b.BehindSeconds, a.BehindSeconds), cmp.Compare(b.BehindEvents, a.BehindEvents), cmp.Compare(a.ID, b.ID))
	})
	return behind
}

// report describes the watch, except for its backlog and state. followed is how many events
// were delivered after the initial ones.
func (w *Watch) report(now time.Time) (_ serverreport.Watcher, followed uint64) {
	events, bytes, followed := w.delivered()
	return serverreport.Watcher{
		ID: w.id, Resource: w.resource.name, Client: w.Client, Address: w.Address, Protocol: w.Protocol,
		Selection: w.Selection, Encoding: w.Encoding, AgeSeconds: (now.Sub(w.set.startedAt) - w.openedOffset).Seconds(),
		Events: events, Bytes: bytes,
	}, followed
}

// state returns one of the states. A wait for the client comes first, then one for the connection.
func (w *Watch) state(now time.Time) string {
	windowClosed, writeBegan := w.Transport.Waits()
	if !windowClosed.IsZero() {
		return stateClient
	}
	if !writeBegan.IsZero() && now.Sub(writeBegan) >= stuckAfter {
		return stateConnection
	}
	if w.sendAccount.Load() == nil {
		return stateInitial
	}
	return stateFollowing
}
