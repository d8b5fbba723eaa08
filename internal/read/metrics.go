package read

import (
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	cachermetrics "k8s.io/apiserver/pkg/storage/cacher/metrics"
	"k8s.io/component-base/metrics"

	"github.com/millrace/millrace/internal/cache"
)

// Metrics of the read tier.
type Metrics struct {
	answered *metrics.CounterVec
	passedOn *metrics.CounterVec
	lists    *metrics.CounterVec
	stalled  *metrics.Counter
	expired  *metrics.Counter
	aborted  *metrics.CounterVec
}

// NewMetrics makes the tier's metrics and registers them.
func NewMetrics(register func(metrics.Registerable) error) (*Metrics, error) {
	m := &Metrics{
		answered: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "millrace", Subsystem: "read", Name: "requests_total",
			Help:           "GET, LIST and WATCH requests answered from bytes, by verb.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"verb"}),
		passedOn: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "millrace", Subsystem: "read", Name: "passed_on_total",
			Help:           "GET, LIST and WATCH requests that Kubernetes' own handlers answered, by reason.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"reason"}),
		lists: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "millrace", Subsystem: "read", Name: "lists_total",
			Help:           "LIST requests answered from bytes, by the way to their objects: one key, a range, an index, or a scan that asked every object.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"path"}),
		stalled: metrics.NewCounter(&metrics.CounterOpts{
			Namespace: "millrace", Subsystem: "read", Name: "stalled_total",
			Help:           "LIST requests cut off because their client took less than 256 KiB in 20 s.",
			StabilityLevel: metrics.ALPHA,
		}),
		aborted: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "millrace", Subsystem: "read", Name: "aborted_total",
			Help:           "LIST and WATCH answers that had begun and were cut short because an encoder failed, by verb.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"verb"}),
		expired: metrics.NewCounter(&metrics.CounterOpts{
			Namespace: "millrace", Subsystem: "watch", Name: "expired_total",
			Help:           "Watches that were told to list again because the changes behind their place were gone: the client was too slow, or the feed was broken.",
			StabilityLevel: metrics.ALPHA,
		}),
	}
	for _, r := range []metrics.Registerable{m.answered, m.passedOn, m.lists, m.stalled, m.expired, m.aborted} {
		if err := register(r); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// countList counts a list, also under the names that Kubernetes' watch cache has.
func (m *Metrics) countList(gr schema.GroupResource, page *cache.Page) {
	m.lists.WithLabelValues(string(page.Plan.Path)).Inc()
	cachermetrics.RecordListCacheMetrics(gr, page.Plan.Index(), page.Plan.Candidates, page.Count)
}

// countExpired counts a watch that has to begin anew.
func (m *Metrics) countExpired(gr schema.GroupResource) {
	m.expired.Inc()
	cachermetrics.TerminatedWatchersCounter.WithLabelValues(gr.Group, gr.Resource).Inc()
}

// observe wraps a response so that Kubernetes' own request metrics count it,
// as they count its handlers' (InstrumentHandlerFunc). The returned function
// ends the observation; written is how many bytes went past the writer.
func (q *query) observe(w http.ResponseWriter, req *http.Request, verb string) (_ http.ResponseWriter, observed func(written int64)) {
	received, ok := request.ReceivedTimestampFrom(req.Context())
	if !ok {
		received = time.Now()
	}
	delegate := &endpointmetrics.ResponseWriterDelegator{ResponseWriter: w}
	return responsewriter.WrapForHTTP1Or2(delegate), func(written int64) {
		cfg := &q.route.cfg
		size := delegate.ContentLength() + int(written)
		q.metrics.answered.WithLabelValues(verb).Inc()
		endpointmetrics.MonitorRequest(req, q.installedVerb(verb), cfg.Resource.Group, cfg.Resource.Version, cfg.Resource.Resource, "",
			q.metricScope(req), endpointmetrics.APIServerComponent, cfg.Warning != "", cfg.RemovedRelease,
			delegate.Status(), size, time.Since(received))
		q.charge(req, size)
	}
}

// installedVerb is the verb of the route that Kubernetes installed. Custom resources have no
// routes, and the request's own verb.
func (q *query) installedVerb(verb string) string {
	switch {
	case !q.isWatch || q.route.cfg.Custom != nil:
		return verb
	case !q.legacyWatchPath:
		return "LIST"
	case q.options.FieldSelector != nil:
		return "WATCH"
	}
	return "WATCHLIST"
}

// sizeObserver counts the events of a watch. With a context, which would add exemplars,
// it would cost more than the rest of what the engine does for an event.
func (q *query) sizeObserver() func(int) {
	r := q.route.cfg.Resource
	count := endpointmetrics.WatchEvents.WithLabelValues(r.Group, r.Version, r.Resource)
	sizes := endpointmetrics.WatchEventsSizes.WithLabelValues(r.Group, r.Version, r.Resource)
	return func(size int) {
		count.Inc()
		sizes.Observe(float64(size))
	}
}

// recordWatchList tells how long the initial events of a watch took.
func (q *query) recordWatchList(req *http.Request) {
	if received, ok := request.ReceivedTimestampFrom(req.Context()); ok {
		ctx := request.WithNamespace(req.Context(), q.namespace)
		endpointmetrics.RecordWatchListLatency(ctx, q.route.cfg.Resource, endpointmetrics.CleanListScope(ctx, &q.options), time.Since(received))
	}
}

// metricScope is how Kubernetes' installer names the route: by what the
// resource is, and for lists over all namespaces by that. For custom resources it
// is by what the request asks for, also by a selector.
func (q *query) metricScope(req *http.Request) string {
	info, ok := request.RequestInfoFrom(req.Context())
	switch {
	case ok && q.route.cfg.Custom != nil:
		return endpointmetrics.CleanScope(info)
	case q.name != "" || ok && q.legacyWatchPath && len(info.Parts) > 1:
		return "resource"
	case q.namespace != "":
		return "namespace"
	}
	return "cluster"
}
