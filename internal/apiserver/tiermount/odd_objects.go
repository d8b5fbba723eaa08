package tiermount

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/component-base/metrics"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tier/cache"
)

// This file reports stored objects that cannot be read, and panics, as findings of the page. For
// definitions it has a metric.

const (
	// maxNamedObjects is how many objects of a resource a finding names.
	maxNamedObjects = 3
	// panicShownFor is how long the page shows the newest panic.
	panicShownFor = 10 * time.Minute
)

var definitionsDesc = describe("definitions_unreadable", "Stored definitions of custom resources that cannot be read, or have another name than their key. Those that were read before are served as they were.")

// definitionSource has the definitions that cannot be read.
type definitionSource interface {
	// UnreadableDefinitions returns why definitions cannot be read, by key.
	UnreadableDefinitions() map[string]error
}

// definitionCollector counts definitions that cannot be read.
type definitionCollector struct {
	metrics.BaseStableCollector
	source definitionSource
}

var _ metrics.StableCollector = (*definitionCollector)(nil)

// DescribeWithStability implements metrics.StableCollector.
func (c *definitionCollector) DescribeWithStability(ch chan<- *metrics.Desc) { ch <- definitionsDesc }

// CollectWithStability implements metrics.StableCollector.
func (c *definitionCollector) CollectWithStability(ch chan<- metrics.Metric) {
	ch <- metrics.NewLazyConstMetric(definitionsDesc, metrics.GaugeValue, float64(len(c.source.UnreadableDefinitions())))
}

// sloReport returns the report about watches, with what is wrong with stored objects, and the
// newest panic.
func (r *ReadTier) sloReport(definitions definitionSource) serverreport.SLOReport {
	result := r.Backends.WatchAccounts.SLO()
	for _, b := range r.Backends.All() {
		for _, of := range b.Cache.Resources() {
			if f, ok := unreadableFinding(of); ok {
				result.Causes = append(result.Causes, f)
			}
		}
	}
	if unreadable := definitions.UnreadableDefinitions(); len(unreadable) > 0 {
		names := slices.Sorted(maps.Keys(unreadable))
		result.Causes = append(result.Causes, serverreport.Finding{
			Cause: serverreport.CauseUnreadable, Severity: "warning", Resource: "customresourcedefinitions.apiextensions.k8s.io",
			Message: fmt.Sprintf("%d definitions cannot be read, and are served as they were before, if at all: %s (%v).", len(names), someOf(names), unreadable[names[0]]),
			Advice:  "Write them again by the API, or delete their keys from etcd.",
		})
	}
	if f, ok := panicFinding(r.Backends.Cache.Panics); ok {
		result.Causes = append(result.Causes, f)
	}
	return result
}

// unreadableFinding returns a finding about the objects of a resource that cannot be read, or
// false if there are none. Their errors are only logged: they may quote what is in the objects.
func unreadableFinding(resource *cache.Resource) (serverreport.Finding, bool) {
	snapshot := resource.Snapshot()
	if snapshot.Unreadable == 0 {
		return serverreport.Finding{}, false
	}
	var keys []string
	for e := range snapshot.UnreadableEntries() {
		if keys = append(keys, e.Key); len(keys) > maxNamedObjects {
			break
		}
	}
	return serverreport.Finding{
		Cause: serverreport.CauseUnreadable, Severity: "warning", Resource: resource.GroupResource().String(),
		Message: fmt.Sprintf("%d stored objects cannot be read: %s. Reads that meet them fail as in Kubernetes; all others go on. The log says why.", snapshot.Unreadable, someOf(keys)),
		Advice:  "Delete them with ignoreStoreReadErrorWithClusterBreakingPotential, or restore their values in etcd.",
	}, true
}

// someOf returns the first maxNamedObjects names as text.
func someOf(names []string) string {
	if len(names) > maxNamedObjects {
		return strings.Join(names[:maxNamedObjects], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// panicFinding returns a finding about the newest panic. It returns false if there was none
// within panicShownFor.
func panicFinding(panics *panics.Counter) (serverreport.Finding, bool) {
	counts, last := panics.Counts()
	if last.Time.IsZero() || time.Since(last.Time) > panicShownFor {
		return serverreport.Finding{}, false
	}
	var total int64
	for _, n := range counts {
		total += n
	}
	return serverreport.Finding{
		Cause: serverreport.CausePanic, Severity: "warning",
		Message: fmt.Sprintf("Code of Kubernetes has panicked %d times since the start, last at %s (%s): %s.", total, last.Time.UTC().Format(time.TimeOnly), last.Place, last.Text),
		Advice:  "The log has the stack. The server goes on; keep the log, and look for the object that causes it.",
	}, true
}
