package tiermount

import (
	"cmp"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/account/dashboard"
	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tier/memory"
)

// reportSource returns the reports of the tier and of the server above it.
func (r *ReadTier) reportSource(server RouteSource) dashboard.Source {
	watches := r.Backends.WatchAccounts
	return dashboard.Source{
		SLO: func() serverreport.SLOReport { return r.sloReport(server) }, Watchers: watches.Watchers, Lists: r.listsReport,
		Memory: r.memoryReport, CRDs: server.CustomResources, Feed: watches.Feed,
		Replica: r.ReplicaReport,
	}
}

// listsReport says what GETs and LISTs cost, and how objects were encoded.
func (r *ReadTier) listsReport() serverreport.ListsReport {
	result := r.ReadAccounts.Report()
	if r.proofs == nil {
		return result
	}
	c := r.proofs.Counts()
	result.Transcoding = &serverreport.TranscodingCounts{
		Transcoded: c.Transcoded, Compared: c.Compared, Different: c.Different, Refuted: c.Refuted, Declined: c.Declined, Normalized: c.Normalized, Proven: c.Proven,
	}
	if d := c.Last; d != nil {
		result.Transcoding.Last = &serverreport.TranscodingDifference{
			Time: d.Time, Form: d.Form, Key: d.Key, Revision: d.Revision, Place: d.Place, Stopped: d.Stopped,
		}
	}
	return result
}

// memoryReport says where the process's memory is.
func (r *ReadTier) memoryReport() serverreport.MemoryReport {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
	metrics.Read(samples)
	result := serverreport.MemoryReport{
		Time: time.Now(), Resident: memory.Resident(), Limit: memory.Available(),
		Heap:       int64(samples[0].Value.Uint64() + samples[1].Value.Uint64()),
		Goroutines: runtime.NumGoroutine(), Wire: r.budget.UsedBytes(), WireLimit: r.budget.LimitBytes(),
		Resources: []serverreport.ResourceMemory{},
	}
	for _, b := range r.Backends.All() {
		for _, resource := range b.Cache.Resources() {
			usage := resource.Usage()
			if usage.Objects == 0 && usage.Log == 0 {
				continue
			}
			m := serverreport.ResourceMemory{
				Resource: resource.GroupResource().String(), Objects: usage.Objects, Values: usage.Values, Log: usage.Log, Forms: usage.Forms,
			}
			for _, term := range resource.Indexes() {
				m.Indexes = append(m.Indexes, term.String())
			}
			slices.Sort(m.Indexes)
			result.Resources = append(result.Resources, m)
		}
	}
	slices.SortFunc(result.Resources, func(a, b serverreport.ResourceMemory) int {
		return cmp.Or(cmp.Compare(totalBytes(&b), totalBytes(&a)), cmp.Compare(a.Resource, b.Resource))
	})
	return result
}

// totalBytes returns the memory of a resource: stored values, events and encoded forms.
func totalBytes(m *serverreport.ResourceMemory) int64 {
	n := m.Values + m.Log
	for _, bytes := range m.Forms {
		n += bytes
	}
	return n
}
