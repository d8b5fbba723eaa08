package watch

import (
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	cachermetrics "k8s.io/apiserver/pkg/storage/cacher/metrics"
	"k8s.io/component-base/metrics"

	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/entry"
)

// ErrOpaque says that a watch would have to show an object that its stored bytes alone
// do not answer (entry.Entry.Opaque). Kubernetes' own code has to serve the watch.
var ErrOpaque = errors.New("object is opaque")

// Hub dispatches the events of one resource to its watches. It is a cache.Follower.
//
// Events are dispatched in the goroutine that writes the log, under the log's lock. So a
// subscription is always as complete as the log, and no queue lies between them that
// could overflow. In return the dispatch delays the feed, and must be cheap.
//
// An event costs one or two lookups for each label and field that some subscription requires
// a value of. It also costs one match of selectors for each subscription that the lookups
// find. Other subscriptions are not visited, unless they are unindexed or the event is
// opaque. Watches that share a subscription add nothing to the dispatch but their wake
// function, which is called after the log is unlocked.
//
// A subscription stores positions of the log in place of events. So the log's bounds
// hold for a slow watch too: it is lost with cache.ErrExpired and holds no memory.
type Hub struct {
	resource schema.GroupResource
	log      *cache.Log
	// The metrics are named as in Kubernetes' watch cache.
	received, dispatched, initializations metrics.CounterMetric
	initializationTime                    metrics.ObserverMetric

	// mu may be taken while the log is locked. The log must not be locked while mu is
	// held.
	mu struct {
		sync.Mutex
		// subscriptions has the subscriptions with open cursors. index finds them by
		// event.
		subscriptions map[identity]*subscription
		index         subscriptionIndex
		// end is the position after the newest dispatched event. opaqueEnd is the position
		// after the newest opaque one, or that after a reset if it is newer.
		end, opaqueEnd cache.Position
		// woken are the cursors to wake in LogUnlocked. spareWoken is nil, or an empty slice
		// that is kept for its memory.
		woken, spareWoken []*Cursor
	}
}

// NewHub makes the hub of a resource, which follows the resource's log from now on. A resource
// has one hub at most.
func NewHub(r *cache.Resource) *Hub {
	gr := r.GroupResource()
	h := &Hub{
		resource: gr, log: r.Log(),
		received:        cachermetrics.EventsReceivedCounter.WithLabelValues(gr.Group, gr.Resource),
		dispatched:      cachermetrics.EventsCounter.WithLabelValues(gr.Group, gr.Resource),
		initializations: cachermetrics.WatchCacheInitializations.WithLabelValues(gr.Group, gr.Resource),

		initializationTime: cachermetrics.WatchCacheInitializationDuration.WithLabelValues(gr.Group, gr.Resource),
	}
	h.mu.subscriptions = map[identity]*subscription{}
	h.mu.index = newSubscriptionIndex()
	h.log.SetFollower(h)
	return h
}

// Appended implements cache.Follower.
func (h *Hub) Appended(at, oldest cache.Position, events []cache.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range events {
		e, position := &events[i], at+cache.Position(i)
		if isOpaque(e) {
			h.mu.opaqueEnd = position + 1
			for _, s := range h.mu.subscriptions {
				if s.Holds(e.Key()) {
					h.addLocked(s, match{position, opaque}, oldest)
				}
			}
			continue
		}
		h.mu.index.visit(e, func(s *subscription) {
			if class := s.classify(e); class != unrelated {
				h.addLocked(s, match{position, class}, oldest)
			}
		})
	}
	h.mu.end = at + cache.Position(len(events))
	h.checkInvariantsLocked()
	if len(events) > 0 {
		h.received.Add(float64(len(events)))
		h.dispatched.Add(float64(len(events)))
		cachermetrics.RecordResourceVersion(h.resource, uint64(events[len(events)-1].Revision))
	}
}

// addLocked adds a match to a subscription and marks its waiting cursors to be woken.
func (h *Hub) addLocked(s *subscription, m match, oldest cache.Position) {
	if !s.addMatch(m, oldest) {
		return
	}
	h.mu.woken = append(h.mu.woken, s.waiting...)
	for _, c := range s.waiting {
		c.waitingIndex = notWaiting
	}
	clear(s.waiting)
	s.waiting = s.waiting[:0]
}

// Forgotten implements cache.Follower.
func (h *Hub) Forgotten(end cache.Position, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.mu.subscriptions {
		s.lost = true
		h.mu.index.remove(s)
		h.mu.woken = append(h.mu.woken, s.waiting...)
		s.waiting = nil
	}
	clear(h.mu.subscriptions)
	h.mu.end, h.mu.opaqueEnd = end, end
	h.checkInvariantsLocked()
	h.initializations.Inc()
	h.initializationTime.Observe(took.Seconds())
}

// LogUnlocked implements cache.Follower.
func (h *Hub) LogUnlocked() {
	h.mu.Lock()
	woken := h.mu.woken
	h.mu.woken, h.mu.spareWoken = h.mu.spareWoken, nil
	h.mu.Unlock()
	for _, c := range woken {
		c.wake()
	}
	if len(woken) > 0 {
		clear(woken)
		h.mu.Lock()
		h.mu.spareWoken = woken[:0]
		h.mu.Unlock()
	}
}

// isOpaque reports whether an event cannot be classified and shown from stored bytes.
// That is so if one of its two versions is opaque, or has no attributes for the
// selectors.
func isOpaque(e *cache.Event) bool {
	return isOpaqueEntry(e.Entry) || isOpaqueEntry(e.Previous)
}

func isOpaqueEntry(e *entry.Entry) bool {
	return e != nil && (e.Opaque() || e.Attributes == nil)
}

// Watches returns the numbers of subscriptions and of open watches.
func (h *Hub) Watches() (subscriptions, watches int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.mu.subscriptions {
		watches += s.cursors
	}
	return len(h.mu.subscriptions), watches
}
