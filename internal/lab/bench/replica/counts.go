package replica

import (
	"context"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
)

// counts are read from a server's metrics: a gauge, and two counters since the server's start.
type counts struct {
	watches  int // gauge: open watches of watchedResources
	requests int // counter: ended requests, without PATCH, the verb of the measured writes
	passedOn int // counter: requests that a replica has passed on
}

// scrape returns the counts of a server.
func scrape(ctx context.Context, t *testbed.Target) (counts, error) {
	text, err := t.Metrics(ctx)
	if err != nil {
		return counts{}, err
	}
	return parseCounts(text), nil
}

// parseCounts returns the counts in a text of Prometheus' format. A passed-on request is in one of
// two metrics: the replica passes it on before its read tier looks at it, or the tier passes it on.
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
