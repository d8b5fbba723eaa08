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

	"github.com/millrace/millrace/internal/tier/cache"
)

// Metrics are the metrics of the read tier. They are safe for concurrent use.
type Metrics struct {
	answered  *metrics.CounterVec
	passedOn  *metrics.CounterVec
	lists     *metrics.CounterVec
	stalled   *metrics.Counter
	expired   *metrics.Counter
	takenOver *metrics.Counter
	aborted   *metrics.CounterVec
	// bookmarks counts requested bookmarks. The two below are its children: they are kept
	// because a lookup by label costs as much as the bookmark.
	bookmarks                            *metrics.CounterVec
	intervalBookmarks, revisionBookmarks metrics.CounterMetric
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
		takenOver: metrics.NewCounter(&metrics.CounterOpts{
			Namespace: "millrace", Subsystem: "watch", Name: "taken_over_total",
			Help:           "Watches that were passed on at first, and then sent from here in the same response.",
			StabilityLevel: metrics.ALPHA,
		}),
		expired: metrics.NewCounter(&metrics.CounterOpts{
			Namespace: "millrace", Subsystem: "watch", Name: "expired_total",
			Help:           "Watches that were told to list again because the changes behind their place were gone: the client was too slow, or the feed was broken.",
			StabilityLevel: metrics.ALPHA,
		}),
		bookmarks: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "millrace", Subsystem: "watch", Name: "bookmarks_total",
			Help:           "Bookmarks that watches were sent because their clients asked for them by name, by reason: the interval, or a revision that was reached.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"reason"}),
	}
	for _, r := range []metrics.Registerable{m.answered, m.passedOn, m.lists, m.stalled, m.takenOver, m.expired, m.aborted, m.bookmarks} {
		if err := register(r); err != nil {
			return nil, err
		}
	}
	m.intervalBookmarks, m.revisionBookmarks = m.bookmarks.WithLabelValues("interval"), m.bookmarks.WithLabelValues("revision")
	return m, nil
}

// Answered returns the counter of requests that were answered from bytes, by verb.
func (m *Metrics) Answered() *metrics.CounterVec { return m.answered }

// PassedOn returns the counter of requests that were passed on, by reason.
func (m *Metrics) PassedOn() *metrics.CounterVec { return m.passedOn }

// countList counts a list, also in the metrics of Kubernetes' watch cache.
func (m *Metrics) countList(gr schema.GroupResource, page *cache.Page) {
	m.lists.WithLabelValues(string(page.Plan.Path)).Inc()
	cachermetrics.RecordListCacheMetrics(gr, page.Plan.Index(), page.Plan.Candidates, page.Count)
}

// countExpired counts a watch that lost its place, whose client must list again.
func (m *Metrics) countExpired(gr schema.GroupResource) {
	m.expired.Inc()
	cachermetrics.TerminatedWatchersCounter.WithLabelValues(gr.Group, gr.Resource).Inc()
}

// observe counts a request as answered, and wraps its response for Kubernetes' own request
// metrics, as these wrap the responses of Kubernetes' handlers (InstrumentHandlerFunc). The
// caller calls observed at the end of the answer, with the number of bytes that did not go
// through the returned writer. That also adds the request to the accounts.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/metrics.InstrumentHandlerFunc; compare at each upgrade.
func (q *query) observe(w http.ResponseWriter, req *http.Request, verb string) (_ http.ResponseWriter, observed func(written int64)) {
	received, ok := request.ReceivedTimestampFrom(req.Context())
	if !ok {
		received = time.Now()
	}
	delegate := &endpointmetrics.ResponseWriterDelegator{ResponseWriter: w}
	q.metrics.answered.WithLabelValues(verb).Inc() // a watch counts while it is open
	return responsewriter.WrapForHTTP1Or2(delegate), func(written int64) {
		cfg := &q.route.cfg
		size := delegate.ContentLength() + int(written)
		endpointmetrics.MonitorRequest(req, q.installedVerb(verb), cfg.Resource.Group, cfg.Resource.Version, cfg.Resource.Resource, "",
			q.metricScope(req), endpointmetrics.APIServerComponent, cfg.Warning != "", cfg.RemovedRelease,
			delegate.Status(), size, time.Since(received))
		q.charge(req, size, delegate.Status())
	}
}

// installedVerb returns the verb under which Kubernetes' router has installed the
// request's handler. Custom resources are not installed, so they have the request's own
// verb.
//
// Upstream: k8s.io/apiserver/pkg/endpoints.APIInstaller.registerResourceHandlers; compare at each upgrade.
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

// sizeObserver returns a function that counts an event of a watch by its size. It passes no
// context to the metrics. With one they would keep exemplars, which would cost more than all
// else that is done for an event.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers.watchEventMetricsRecorder.RecordEvent; compare at each upgrade.
func (q *query) sizeObserver() func(int) {
	r := q.route.cfg.Resource
	count := endpointmetrics.WatchEvents.WithLabelValues(r.Group, r.Version, r.Resource)
	sizes := endpointmetrics.WatchEventsSizes.WithLabelValues(r.Group, r.Version, r.Resource)
	return func(size int) {
		count.Inc()
		sizes.Observe(float64(size))
	}
}

// recordWatchList records how long the initial events of a watch took.
//
// Upstream: k8s.io/apiserver/pkg/endpoints/handlers.shouldRecordWatchListLatency; compare at each upgrade.
func (q *query) recordWatchList(req *http.Request) {
	if received, ok := request.ReceivedTimestampFrom(req.Context()); ok {
		ctx := request.WithNamespace(req.Context(), q.namespace)
		endpointmetrics.RecordWatchListLatency(ctx, q.route.cfg.Resource, endpointmetrics.CleanListScope(ctx, &q.options), time.Since(received))
	}
}

// metricScope returns the label scope of Kubernetes' request metrics. For built-in
// resources its installer derives it from the route: resource, namespace or cluster. For
// custom resources it comes from the request, also from a selector by name.
//
// Upstream: k8s.io/apiserver/pkg/endpoints.APIInstaller.registerResourceHandlers; compare at each upgrade.
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
