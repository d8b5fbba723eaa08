package server

import (
	"cmp"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/dashboard"
	"github.com/millrace/millrace/internal/report"
)

// reportSource returns the reports of the tier and of the server above it.
func (r *readTier) reportSource(server routeSource) dashboard.Source {
	watches := r.backends.watchAccounts
	return dashboard.Source{
		SLO: func() report.SLOReport { return r.sloReport(server) }, Watchers: watches.Watchers, Lists: r.listsReport,
		Memory: r.memoryReport, CRDs: server.CustomResources, Feed: watches.Feed,
		Replica: r.replicaReport,
	}
}

// listsReport says what GETs and LISTs cost, and how objects were encoded.
func (r *readTier) listsReport() report.ListsReport {
	result := r.readAccounts.Report()
	if r.proofs == nil {
		return result
	}
	c := r.proofs.Counts()
	result.Transcoding = &report.TranscodingCounts{
		Transcoded: c.Transcoded, Compared: c.Compared, Different: c.Different, Refuted: c.Refuted, Declined: c.Declined, Proven: c.Proven,
	}
	if d := c.Last; d != nil {
		result.Transcoding.Last = &report.TranscodingDifference{
			Time: d.Time, Form: d.Form, Key: d.Key, Revision: d.Revision, Place: d.Place, Stopped: d.Stopped,
		}
	}
	return result
}

// memoryReport says where the process's memory is.
func (r *readTier) memoryReport() report.MemoryReport {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
	metrics.Read(samples)
	result := report.MemoryReport{
		Time: time.Now(), Resident: resident(), Limit: availableMemory(),
		Heap:       int64(samples[0].Value.Uint64() + samples[1].Value.Uint64()),
		Goroutines: runtime.NumGoroutine(), Wire: r.budget.Used(), WireLimit: r.budget.Limit(),
		Resources: []report.ResourceMemory{},
	}
	for _, b := range r.backends.all() {
		for _, resource := range b.Cache.Resources() {
			usage := resource.Usage()
			if usage.Objects == 0 && usage.Log == 0 {
				continue
			}
			m := report.ResourceMemory{
				Resource: resource.GroupResource().String(), Objects: usage.Objects, Values: usage.Values, Log: usage.Log, Forms: usage.Forms,
			}
			for _, term := range resource.Indexes() {
				m.Indexes = append(m.Indexes, term.String())
			}
			slices.Sort(m.Indexes)
			result.Resources = append(result.Resources, m)
		}
	}
	slices.SortFunc(result.Resources, func(a, b report.ResourceMemory) int {
		return cmp.Or(cmp.Compare(totalBytes(&b), totalBytes(&a)), cmp.Compare(a.Resource, b.Resource))
	})
	return result
}

// totalBytes returns the memory of a resource: stored values, events and encoded forms.
func totalBytes(m *report.ResourceMemory) int64 {
	n := m.Values + m.Log
	for _, bytes := range m.Forms {
		n += bytes
	}
	return n
}

// resident returns the process's resident memory in bytes, or 0 where the system
// does not report it.
func resident() int64 {
	content, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(content))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
