package right

import "k8s.io/component-base/metrics"

// Collector returns the metrics of reviews.
func (r *Reviews) Collector() metrics.StableCollector { return &reviewCollector{reviews: r} }

type reviewCollector struct {
	metrics.BaseStableCollector
	reviews *Reviews
}

var (
	inFlightDesc = describe("replica_reviews_in_flight", "Questions about tokens and rights that the upstream is answering, by kind: token or right.", "kind")
	waitingDesc  = describe("replica_reviews_waiting", "Questions about tokens and rights that wait until the upstream has answered others, by kind.", "kind")
	omittedDesc  = describe("replica_reviews_omitted_total", "Questions about tokens and rights that the upstream was not asked, so that their requests were passed on, by kind and reason: address and total, for too many bad tokens from one address or from all; queue and time, for too many questions at the same time.", "kind", "reason")
)

func describe(name, help string, labels ...string) *metrics.Desc {
	return metrics.NewDesc("millrace_"+name, help, labels, nil, metrics.ALPHA, "")
}

// DescribeWithStability implements metrics.StableCollector.
func (c *reviewCollector) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, d := range []*metrics.Desc{inFlightDesc, waitingDesc, omittedDesc} {
		ch <- d
	}
}

// CollectWithStability implements metrics.StableCollector.
func (c *reviewCollector) CollectWithStability(ch chan<- metrics.Metric) {
	r := c.reviews
	for kind, classes := range map[string][]*turns{kindToken: {r.tokens.goodTurns, r.tokens.otherTurns}, kindRight: {r.rights.turns}} {
		var inFlight, waiting int
		for _, t := range classes {
			asked, queued := t.load()
			inFlight, waiting = inFlight+asked, waiting+queued
		}
		ch <- metrics.NewLazyConstMetric(inFlightDesc, metrics.GaugeValue, float64(inFlight), kind)
		ch <- metrics.NewLazyConstMetric(waitingDesc, metrics.GaugeValue, float64(waiting), kind)
		for why, n := range r.omitted[kind] {
			ch <- metrics.NewLazyConstMetric(omittedDesc, metrics.CounterValue, float64(n.Load()), kind, string(why))
		}
	}
}
