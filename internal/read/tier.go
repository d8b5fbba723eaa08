package read

import (
	"net/http"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Tier is the read tier: a handler in front of Kubernetes' handlers.
type Tier struct {
	metrics *Metrics
	routes  atomic.Pointer[map[schema.GroupVersionResource]*Route]
	// answering counts requests that are being answered from bytes.
	answering atomic.Int64
}

// NewTier makes a tier that passes everything on until it is given routes.
func NewTier(metrics *Metrics) *Tier {
	t := &Tier{metrics: metrics}
	t.routes.Store(&map[schema.GroupVersionResource]*Route{})
	return t
}

// Serve replaces the resources that the tier answers for.
func (t *Tier) Serve(routes []*Route) {
	byName := make(map[schema.GroupVersionResource]*Route, len(routes))
	for _, r := range routes {
		byName[r.cfg.Resource] = r
	}
	t.routes.Store(&byName)
}

// Wrap returns the tier in front of next.
func (t *Tier) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		q, reason := t.parse(req)
		if reason == "" {
			t.answering.Add(1)
			reason = func() passed {
				defer t.answering.Add(-1)
				return q.answer(w, req)
			}()
		}
		if reason == "" {
			return
		}
		if reason != notRead {
			t.metrics.passedOn.WithLabelValues(string(reason)).Inc()
		}
		next.ServeHTTP(w, req)
	})
}

// answer serves the request, or returns why Kubernetes has to.
func (q *query) answer(w http.ResponseWriter, req *http.Request) passed {
	if q.name != "" {
		return q.get(w, req)
	}
	return q.list(w, req)
}
