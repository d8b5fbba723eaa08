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
	"github.com/millrace/millrace/internal/kube"
	"github.com/millrace/millrace/internal/report"
)

// source makes reports of the tier and of the server over it.
func (r *readTier) source(server *kube.Server) dashboard.Source {
	watches := r.backends.accounts
	return dashboard.Source{
		SLO: watches.SLO, Watchers: watches.Watchers, Lists: r.lists.Report,
		Memory: r.memory, CRDs: server.CustomResources, Feed: watches.Feed,
	}
}

// memory tells where the process's memory is.
func (r *readTier) memory() report.MemoryReport {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
	metrics.Read(samples)
	result := report.MemoryReport{
		Time: time.Now(), Resident: resident(), Limit: memory(),
		Heap:       int64(samples[0].Value.Uint64() + samples[1].Value.Uint64()),
		Goroutines: runtime.NumGoroutine(), Wire: r.budget.Used(), WireLimit: r.budget.Limit(),
		Resources: []report.ResourceMemory{},
	}
	for _, b := range r.backends.all() {
		for _, held := range b.Cache.Resources() {
			usage := held.Usage()
			if usage.Objects == 0 && usage.Log == 0 {
				continue
			}
			m := report.ResourceMemory{
				Resource: held.GroupResource().String(), Objects: usage.Objects, Values: usage.Values, Log: usage.Log, Forms: usage.Forms,
			}
			for _, term := range held.Indexes() {
				m.Indexes = append(m.Indexes, term.String())
			}
			slices.Sort(m.Indexes)
			result.Resources = append(result.Resources, m)
		}
	}
	slices.SortFunc(result.Resources, func(a, b report.ResourceMemory) int {
		return cmp.Or(cmp.Compare(taken(&b), taken(&a)), cmp.Compare(a.Resource, b.Resource))
	})
	return result
}

func taken(m *report.ResourceMemory) int64 {
	n := m.Values + m.Log
	for _, bytes := range m.Forms {
		n += bytes
	}
	return n
}

// resident is the process's resident memory in bytes, 0 where the system does not
// tell.
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
