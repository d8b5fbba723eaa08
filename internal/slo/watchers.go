package slo

import (
	"cmp"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/report"
)

// The states of a Watcher.
const (
	stateInitial    = "initial"
	stateFollowing  = "following"
	stateClient     = "client"
	stateConnection = "connection"
)

// stuckFrom is how long a write takes that is told as one that waits for the
// connection.
const stuckFrom = 50 * time.Millisecond

// Watchers is /debug/millrace/watchers.
func (x *Watches) Watchers() report.WatchersReport {
	now := x.cfg.Clock.Now()
	result := report.WatchersReport{Time: now, ByResource: []report.ResourceWatchers{}}
	watches := x.watches()
	result.Watches = len(watches)
	perResource := map[*resourceAccount]*report.ResourceWatchers{}
	for _, r := range x.resources() {
		r.mu.Lock()
		r.settleLocked()
		result.Events, result.Bytes, result.Expired = result.Events+r.events, result.Bytes+r.bytes, result.Expired+r.expired
		r.mu.Unlock()
	}
	clients := map[report.Client]struct{}{}
	selections := map[subscriptionKey]struct{}{}
	for _, w := range watches {
		clients[w.Client] = struct{}{}
		told := perResource[w.resource]
		if told == nil {
			told = w.resource.log(now)
			perResource[w.resource] = told
		}
		told.Watches++
		key := subscriptionKey{w.resource.name, w.Selection}
		if _, known := selections[key]; !known {
			selections[key] = struct{}{}
			told.Subscriptions++
		}
	}
	result.Clients, result.Subscriptions = len(clients), len(selections)
	for _, told := range perResource {
		result.ByResource = append(result.ByResource, *told)
	}
	slices.SortFunc(result.ByResource, func(a, b report.ResourceWatchers) int {
		return cmp.Or(cmp.Compare(b.Watches, a.Watches), cmp.Compare(a.Resource, b.Resource))
	})
	behind := behindOf(watches, now)
	result.Waiting = len(behind)
	result.Behind = behind[:min(mostBehind, len(behind))]
	return result
}

func (x *Watches) watches() []*Watch {
	x.mu.Lock()
	defer x.mu.Unlock()
	list := make([]*Watch, 0, len(x.mu.watches))
	for _, w := range x.mu.watches {
		list = append(list, w)
	}
	return list
}

// log says what a resource remembers.
func (r *resourceAccount) log(now time.Time) *report.ResourceWatchers {
	told := &report.ResourceWatchers{Resource: r.name}
	if r.history == nil {
		return told
	}
	var oldest time.Time
	told.LogEvents, told.LogBytes, oldest = r.history.Held()
	if told.LogEvents > 0 {
		told.LogSeconds = max(0, now.Sub(oldest)).Seconds()
	}
	return told
}

// behindOf are the watches that were not sent all yet, those furthest behind first.
func behindOf(watches []*Watch, now time.Time) []report.Watcher {
	behind := []report.Watcher{}
	for _, w := range watches {
		t, followed := w.report(now)
		events, bytes, oldest := w.Backlog.Behind(followed)
		if events == 0 && w.sender.Load() != nil {
			continue
		}
		t.BehindEvents, t.BehindBytes = events, bytes
		if !oldest.IsZero() {
			t.BehindSeconds = max(0, now.Sub(oldest)).Seconds()
		}
		t.State = w.state(now)
		behind = append(behind, t)
	}
	slices.SortFunc(behind, func(a, b report.Watcher) int {
		return cmp.Or(cmp.Compare(b.BehindSeconds, a.BehindSeconds), cmp.Compare(b.BehindEvents, a.BehindEvents), cmp.Compare(a.ID, b.ID))
	})
	return behind
}

// report describes the watch. followed is how many events it was sent behind the
// initial ones.
func (w *Watch) report(now time.Time) (_ report.Watcher, followed uint64) {
	events, bytes, followed := w.sent()
	return report.Watcher{
		ID: w.id, Resource: w.resource.name, Client: w.Client, Address: w.Address, Protocol: w.Protocol,
		Selection: w.Selection, Encoding: w.Encoding, Age: (now.Sub(w.set.began) - w.began).Seconds(),
		Events: events, Bytes: bytes,
	}, followed
}

// state says what a watch waits for.
func (w *Watch) state(now time.Time) string {
	window, write := w.Transport.Waits()
	if !window.IsZero() {
		return stateClient
	}
	if !write.IsZero() && now.Sub(write) >= stuckFrom {
		return stateConnection
	}
	if w.sender.Load() == nil {
		return stateInitial
	}
	return stateFollowing
}

// Expired says that the watch was told to list again, for its place was lost.
func (w *Watch) Expired() {
	if w == nil {
		return
	}
	w.resource.mu.Lock()
	w.resource.expired++
	w.resource.mu.Unlock()
	w.set.logs.say(w.set.cfg.Clock.Now(), func(left uint64) {
		w.set.cfg.Logger.Warn("Watch was told to list again: what it had not been sent is not in the log any more; the client was too slow, or the feed was broken",
			"resource", w.resource.name, "user", w.Client.User, "userAgent", w.Client.UserAgent, "address", w.Address, "selection", w.Selection, "notLogged", left)
	})
}
