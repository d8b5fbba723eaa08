package upstream

import "k8s.io/component-base/metrics"

// Metrics are the metrics of a replica's requests. They are safe for concurrent use.
type Metrics struct {
	// PassedOn counts requests by the reason for which they were passed on before the read tier
	// saw them. Refused counts requests by the reason for which the replica refused them by
	// itself.
	PassedOn, Refused *metrics.CounterVec
	// Shared counts reads that were given the answer to another read.
	Shared *metrics.Counter
	// Requests counts the requests that a Proxy has sent, by how their user was named.
	Requests *metrics.CounterVec
	// Guarded counts requests that a guard of the door did not let through, by identity.
	Guarded *metrics.CounterVec
	// Authorized counts decisions about rights to reads and documents, by what has decided.
	Authorized *metrics.CounterVec
	// Documents counts answers of discovery and OpenAPI, by status.
	Documents *metrics.CounterVec
	// DocumentChecks counts questions to the upstream about documents, by result.
	DocumentChecks *metrics.CounterVec
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(register func(metrics.Registerable) error) (*Metrics, error) {
	m := &Metrics{
		PassedOn: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "millrace", Subsystem: "replica", Name: "passed_on_total",
			Help:           "Requests that were passed on to the upstream before the read tier looked at them, by reason. millrace_read_passed_on_total has those that the tier passed on.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"reason"}),
		Shared: metrics.NewCounter(&metrics.CounterOpts{
			Namespace: "millrace", Subsystem: "replica", Name: "shared_reads_total",
			Help:           "Reads that were passed on and answered with the answer to the same request of another client, which came before the upstream was asked.",
			StabilityLevel: metrics.ALPHA,
		}),
		Requests: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "millrace", Subsystem: "replica", Name: "upstream_requests_total",
			Help:           "Requests that the upstream was asked to answer, by how their user was named to it: token, front-proxy, impersonation or anonymous.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"identity"}),
		Documents: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "millrace", Subsystem: "replica", Name: "discovery_requests_total",
			Help:           "Requests for discovery and OpenAPI that were answered here, by status.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"code"}),
		DocumentChecks: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "millrace", Subsystem: "replica", Name: "discovery_checks_total",
			Help:           "Questions to the upstream whether a document of discovery or OpenAPI is current, by result: unchanged, changed or new, refused because it must not be kept, or failed.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"result"}),
		Guarded: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "millrace", Subsystem: "replica", Name: "guarded_requests_total",
			Help:           "Requests with credentials of the replica's that its guard did not let through, by identity: own, impersonation or front-proxy. Each is a fault of this program that was kept from mattering.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"identity"}),
		Authorized: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "millrace", Subsystem: "replica", Name: "authorizations_total",
			Help:           "Reads whose right was decided, by how: rbac for those that the upstream's RBAC objects allow, review for those about which the upstream was asked, or its last answer was taken.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"by"}),
		Refused: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "millrace", Subsystem: "replica", Name: "refused_total",
			Help:           "Requests that the replica refused by itself, by reason: write, for --reads-only; cpu and bytes, for budgets of clients; certificate, for want of a way to name the user of one to the upstream; path, for those that cannot be passed on as they came, or not for the user of a certificate; strangers, for those of unknown users that waited too long for the upstream.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"reason"}),
	}
	for _, r := range []metrics.Registerable{m.PassedOn, m.Shared, m.Requests, m.Authorized, m.Refused, m.Guarded, m.Documents, m.DocumentChecks} {
		if err := register(r); err != nil {
			return nil, err
		}
	}
	for _, identity := range []string{ownIdentity, impersonationIdentity, frontProxyIdentity} {
		m.Guarded.WithLabelValues(identity) // 0 is news, too
	}
	return m, nil
}
