package replica

import (
	"context"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// counts are figures of a server's metrics.
type counts struct {
	watches  int // open watches of watchedResources
	requests int // ended requests, except writeVerb
	passedOn int // requests that a replica has passed on
}

// scrape returns the counts of a server.
func scrape(ctx context.Context, t *testbed.Target) (c counts, err error) {
	text, err := t.Metrics(ctx)
	return parseCounts(text), err
}

// parseCounts returns the counts by a text in Prometheus' format.
func parseCounts(text string) (c counts) {
	watched := map[string]bool{}
	for _, r := range watchedResources() {
		watched[r.plural()] = true
	}
	testbed.ParseMetrics(text, func(m testbed.Metric) {
		switch m.Name {
		case "apiserver_longrunning_requests":
			if m.Label("verb") == "WATCH" && watched[m.Label("resource")] {
				c.watches += int(m.Value)
			}
		case "apiserver_request_total":
			if m.Label("verb") != writeVerb {
				c.requests += int(m.Value)
			}
		case "millrace_read_passed_on_total", "millrace_replica_passed_on_total":
			c.passedOn += int(m.Value)
		}
	})
	return c
}
