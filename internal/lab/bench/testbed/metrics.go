package testbed

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Metric is one sample of a server's metrics.
type Metric struct {
	Name   string
	labels string // as in the text, without the braces
	Value  float64
}

// Label returns the value of a label, or "" if there is none. It does not unescape values:
// API servers' labels have no quotation marks.
func (m Metric) Label(name string) string {
	_, rest, ok := strings.Cut(","+m.labels, ","+name+`="`)
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// Metrics reads a server's metrics, as text in Prometheus' format.
func (t *Target) Metrics(ctx context.Context) (string, error) {
	text, err := t.fetch(ctx, Request{URI: "/metrics", Accept: "text/plain"})
	if err != nil {
		return "", fmt.Errorf("read metrics: %w", Cause(ctx, err))
	}
	return string(text), nil
}

// ParseMetrics calls visit for the samples of a text in Prometheus' format. It skips lines that
// it cannot parse.
func ParseMetrics(text string, visit func(Metric)) {
	for line := range strings.Lines(text) {
		space := strings.LastIndexByte(line, ' ')
		if space < 0 || line[0] == '#' {
			continue
		}
		name, labels, _ := strings.Cut(line[:space], "{")
		if value, err := strconv.ParseFloat(strings.TrimSpace(line[space:]), 64); err == nil {
			visit(Metric{name, strings.TrimSuffix(labels, "}"), value})
		}
	}
}
