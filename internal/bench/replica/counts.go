package replica

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/bench/testbed"
)

// counts are what a server's metrics say.
type counts struct {
	watches  int // open, of the resources that informers watch
	requests int // that ended, without those of the writer
	passedOn int // by a replica
}

// scrape reads a server's metrics.
func scrape(ctx context.Context, t *testbed.Target) (c counts, err error) {
	conn, err := t.Dial(0)
	if err != nil {
		return c, err
	}
	defer conn.Close()
	req, err := t.NewRequest(ctx, testbed.Request{URI: "/metrics", Accept: "text/plain"})
	if err != nil {
		return c, err
	}
	text, err := conn.FetchBody(req)
	if err != nil {
		return c, fmt.Errorf("read metrics: %w", testbed.Cause(ctx, err))
	}
	return parseCounts(string(text)), nil
}

// parseCounts adds up the samples of a text in Prometheus' format.
func parseCounts(text string) (c counts) {
	watched := map[string]bool{}
	for _, r := range watchedResources() {
		watched[r.plural()] = true
	}
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, "{")
		end := strings.LastIndexByte(rest, '}')
		if !ok || end < 0 {
			continue
		}
		labels := rest[:end]
		value, err := strconv.ParseFloat(strings.TrimSpace(rest[end+1:]), 64)
		if err != nil {
			continue
		}
		switch name {
		case "apiserver_longrunning_requests":
			if label(labels, "verb") == "WATCH" && watched[label(labels, "resource")] {
				c.watches += int(value)
			}
		case "apiserver_request_total":
			if label(labels, "verb") != writeVerb {
				c.requests += int(value)
			}
		case "millrace_read_passed_on_total", "millrace_replica_passed_on_total":
			c.passedOn += int(value)
		}
	}
	return c
}

// label returns the value of a label. Values of these metrics have no quotation marks.
func label(labels, name string) string {
	_, rest, ok := strings.Cut(","+labels, ","+name+`="`)
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
