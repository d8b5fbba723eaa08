package read

import (
	"net/http"
	"time"

	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	"k8s.io/component-base/metrics"

	"github.com/millrace/millrace/internal/cache"
)

// Metrics of the read tier.
type Metrics struct {
	served   *metrics.CounterVec
	passedOn *metrics.CounterVec
	lists    *metrics.CounterVec
	stalled  *metrics.Counter
}

// NewMetrics makes the tier's metrics and registers them.
func NewMetrics(register func(metrics.Registerable) error) (*Metrics, error) {
	m := &Metrics{
		served: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "millrace", Subsystem: "read", Name: "requests_total",
			Help:           "GET and LIST requests answered from bytes, by verb.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"verb"}),
		passedOn: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "millrace", Subsystem: "read", Name: "passed_on_total",
			Help:           "GET and LIST requests that Kubernetes' own handlers answered, by reason.",
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
	}
	for _, r := range []metrics.Registerable{m.served, m.passedOn, m.lists, m.stalled} {
		if err := register(r); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) listed(path cache.Path) { m.lists.WithLabelValues(string(path)).Inc() }

// observe wraps a response so that Kubernetes' own request metrics count it,
// as they count its handlers' (InstrumentHandlerFunc). The returned function
// ends the observation.
func (q *query) observe(w http.ResponseWriter, req *http.Request, verb string) (http.ResponseWriter, func()) {
	received, ok := request.ReceivedTimestampFrom(req.Context())
	if !ok {
		received = time.Now()
	}
	delegate := &endpointmetrics.ResponseWriterDelegator{ResponseWriter: w}
	return responsewriter.WrapForHTTP1Or2(delegate), func() {
		cfg := &q.route.cfg
		q.metrics.served.WithLabelValues(verb).Inc()
		endpointmetrics.MonitorRequest(req, verb, cfg.Resource.Group, cfg.Resource.Version, cfg.Resource.Resource, "",
			q.metricScope(), endpointmetrics.APIServerComponent, cfg.Warning != "", cfg.RemovedRelease,
			delegate.Status(), delegate.ContentLength(), time.Since(received))
	}
}

// metricScope is how Kubernetes' installer names the route: by what the
// resource is, and for lists over all namespaces by that.
func (q *query) metricScope() string {
	switch {
	case q.name != "":
		return "resource"
	case q.namespace != "":
		return "namespace"
	}
	return "cluster"
}
