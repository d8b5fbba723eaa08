package watch

import (
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	cachermetrics "k8s.io/apiserver/pkg/storage/cacher/metrics"
	"k8s.io/component-base/metrics"

	"github.com/millrace/millrace/internal/cache"
	"github.com/millrace/millrace/internal/resource"
)

// ErrOpaque says that a watch would have to show an object whose bytes do not tell
// what is served (resource.Entry.Plain). Kubernetes' own code has to.
var ErrOpaque = errors.New("object is not plain")

// Hub dispatches the events of one resource. It is a cache.Follower.
//
// Dispatching an event costs a look-up for each label and field that some
// subscription pins down, and one match for each subscription behind the values
// found; what it does not concern is not looked at. It happens in the
// goroutine that writes the log, so a subscription is as complete as the log.
// What it costs there is bounded by the subscriptions that match, not by their
// watches: those are woken behind it.
type Hub struct {
	resource schema.GroupResource
	log      *cache.Log
	// The metrics are those of Kubernetes' watch cache.
	received, dispatched, initializations metrics.CounterMetric

	// mu is taken behind the log's lock, never before it.
	mu struct {
		sync.Mutex
		subscriptions map[identity]*subscription
		gates         gates
		// end is behind the newest event that was dispatched, odd behind the newest
		// that is not plain.
		end, odd cache.Cursor
		// woken are cursors to be woken when the log is not locked any more. spare is
		// room for the next ones.
		woken, spare []*Cursor
	}
}

// NewHub makes a hub. A resource has one at most.
func NewHub(r *cache.Resource) *Hub {
	gr := r.GroupResource()
	h := &Hub{
		resource: gr, log: r.Log(),
		received:        cachermetrics.EventsReceivedCounter.WithLabelValues(gr.Group, gr.Resource),
		dispatched:      cachermetrics.EventsCounter.WithLabelValues(gr.Group, gr.Resource),
		initializations: cachermetrics.WatchCacheInitializations.WithLabelValues(gr.Group, gr.Resource),
	}
	h.mu.subscriptions = map[identity]*subscription{}
	h.mu.gates = newGates()
	h.log.SetFollower(h)
	return h
}

// Appended implements cache.Follower.
func (h *Hub) Appended(at, oldest cache.Cursor, events []cache.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range events {
		e, place := &events[i], at+cache.Cursor(i)
		if !plain(e) {
			h.mu.odd = place + 1
			for _, s := range h.mu.subscriptions {
				if s.Holds(e.Key()) {
					h.addLocked(s, match{place, opaque}, oldest)
				}
			}
			continue
		}
		h.mu.gates.each(e, func(s *subscription) {
			if what := s.classify(e); what != nothing {
				h.addLocked(s, match{place, what}, oldest)
			}
		})
	}
	h.mu.end = at + cache.Cursor(len(events))
	if len(events) > 0 {
		h.received.Add(float64(len(events)))
		h.dispatched.Add(float64(len(events)))
		cachermetrics.RecordResourceVersion(h.resource, uint64(events[len(events)-1].Revision))
	}
}

func (h *Hub) addLocked(s *subscription, m match, oldest cache.Cursor) {
	if !s.add(m, oldest) {
		return
	}
	h.mu.woken = append(h.mu.woken, s.waiting...)
	for _, c := range s.waiting {
		c.waiting = notWaiting
	}
	clear(s.waiting)
	s.waiting = s.waiting[:0]
}

// Forgotten implements cache.Follower.
func (h *Hub) Forgotten(end cache.Cursor) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.mu.subscriptions {
		s.lost = true
		h.mu.gates.remove(s)
		h.mu.woken = append(h.mu.woken, s.waiting...)
		s.waiting = nil
	}
	clear(h.mu.subscriptions)
	h.mu.end, h.mu.odd = end, end
	h.initializations.Inc()
}

// Settled implements cache.Follower.
func (h *Hub) Settled() {
	h.mu.Lock()
	woken := h.mu.woken
	h.mu.woken, h.mu.spare = h.mu.spare, nil
	h.mu.Unlock()
	for _, c := range woken {
		c.wake()
	}
	if len(woken) > 0 {
		clear(woken)
		h.mu.Lock()
		h.mu.spare = woken[:0]
		h.mu.Unlock()
	}
}

// plain reports whether bytes tell all that an event shows.
func plain(e *cache.Event) bool {
	return regular(e.Entry) && regular(e.Previous)
}

func regular(e *resource.Entry) bool { return e == nil || !e.Opaque() && e.Attributes != nil }

// Watches tells how many subscriptions and watches there are.
func (h *Hub) Watches() (subscriptions, watches int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.mu.subscriptions {
		watches += s.cursors
	}
	return len(h.mu.subscriptions), watches
}
