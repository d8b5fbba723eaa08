package slo

import (
	"time"

	"github.com/millrace/millrace/internal/account/serverreport"
)

// This file finds, makes and drops the accounts of resources, clients and subscriptions.
// Clients choose their own names and their selections, so the accounts of clients and
// subscriptions are bounded.

type subscriptionKey struct{ resource, selection string }

// dropRetry is the pause after a search that found no account to drop. Without it,
// thousands of watches that are opened together would each search all accounts.
const dropRetry = time.Second

func (set *Watches) resourceLocked(name string) *resourceAccount {
	r := set.mu.resources[name]
	if r == nil {
		r = &resourceAccount{set: set, name: name, objective: set.cfg.Objectives.forResource(name)}
		set.mu.resources[name] = r
	}
	return r
}

// clientLocked returns the account of a client, or the account of otherName if there are too
// many clients.
func (set *Watches) clientLocked(c serverreport.Client) *clientAccount {
	if known := set.mu.clients[c]; known != nil {
		return known
	}
	if len(set.mu.clients) >= set.cfg.Clients && !set.dropOldLocked(&set.mu.nextClientDrop, set.dropClientsLocked) {
		c = serverreport.Client{UserAgent: otherName}
	}
	known := set.mu.clients[c]
	if known == nil {
		known = &clientAccount{Client: c}
		set.mu.clients[c] = known
	}
	return known
}

// dropOldLocked lets drop remove the accounts that had no watch for a minute, and reports
// whether there were any. After a search that found none it does not search again for
// dropRetry. next is when it may search again.
func (set *Watches) dropOldLocked(next *time.Time, drop func(before time.Time) bool) bool {
	now := set.cfg.Clock.Now()
	if now.Before(*next) {
		return false
	}
	if drop(now.Add(-time.Minute)) {
		return true
	}
	*next = now.Add(dropRetry)
	return false
}

// dropClientsLocked drops clients that have had no watch since before. The account of otherName
// inherits their events and bytes.
func (set *Watches) dropClientsLocked(before time.Time) bool {
	dropped := false
	for id, c := range set.mu.clients {
		if c.UserAgent == otherName && c.User == "" || c.watches > 0 || c.lastUsed.After(before) {
			continue
		}
		delete(set.mu.clients, id)
		dropped = true
		others := set.mu.clients[serverreport.Client{UserAgent: otherName}]
		if others == nil {
			others = &clientAccount{Client: serverreport.Client{UserAgent: otherName}}
			set.mu.clients[others.Client] = others
		}
		c.mu.Lock()
		events, bytes := c.mu.events, c.mu.bytes
		c.mu.Unlock()
		others.add(events, bytes)
	}
	return dropped
}

// subscriptionLocked returns the account of a selection. If there are too many, it returns the
// resource's account of otherName.
func (set *Watches) subscriptionLocked(r *resourceAccount, selection string) *subscriptionAccount {
	key := subscriptionKey{r.name, selection}
	if known := set.mu.subscriptions[key]; known != nil {
		return known
	}
	if len(set.mu.subscriptions) >= set.cfg.Subscriptions && !set.dropOldLocked(&set.mu.nextSubscriptionDrop, set.dropSubscriptionsLocked) {
		key.selection = otherName
	}
	known := set.mu.subscriptions[key]
	if known == nil {
		known = &subscriptionAccount{selection: key.selection, resource: r}
		set.mu.subscriptions[key] = known
	}
	return known
}

// dropSubscriptionsLocked drops subscriptions that have had no watch since before, with their
// sums.
func (set *Watches) dropSubscriptionsLocked(before time.Time) bool {
	dropped := false
	for id, s := range set.mu.subscriptions {
		if s.watches == 0 && !s.lastUsed.After(before) {
			delete(set.mu.subscriptions, id)
			dropped = true
		}
	}
	return dropped
}

// Forget drops the accounts of deleted resources, and with them their series in metrics.
// gone reports whether a resource is deleted. It is called with Watches.mu held. Resources with
// open watches are kept. The sums of clients, and DeliveredTotals, do not change.
//
// An account refers to its resource's log. Without Forget the log of a deleted resource
// would never be freed.
func (set *Watches) Forget(gone func(resource string) bool) {
	set.mu.Lock()
	defer set.mu.Unlock()
	watched := map[*resourceAccount]bool{}
	for key, s := range set.mu.subscriptions {
		switch {
		case s.watches > 0:
			watched[s.resource] = true
		case gone(key.resource):
			delete(set.mu.subscriptions, key)
		}
	}
	for name, r := range set.mu.resources {
		if !watched[r] && gone(name) {
			set.mu.forgottenSums.add(r)
			delete(set.mu.resources, name)
		}
	}
}
