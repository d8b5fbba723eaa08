package crd

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/slo"
	"github.com/millrace/millrace/internal/storage"
)

// maxCosts bounds the definitions in a report.
const maxCosts = 100

// Costs reports the memory that definitions take, the most expensive ones first. It visits
// all definitions.
func (s *Server) Costs() slo.CRDsReport {
	_, bytes := s.compiled.usage()
	report := slo.CRDsReport{
		Time: s.cfg.Clock.Now(), Top: []slo.CRDCost{}, CompiledBytes: bytes, CompiledLimit: s.cfg.CompiledBytes,
	}
	for _, d := range s.catalog.All() {
		cost, asked := s.cost(d)
		report.Definitions++
		if asked || cost.Objects > 0 {
			report.Served++
		}
		if cost.CompiledBytes > 0 {
			report.Compiled++
		}
		report.Top = append(report.Top, cost)
	}
	slices.SortFunc(report.Top, func(a, b slo.CRDCost) int {
		return cmp.Or(cmp.Compare(total(&b), total(&a)), cmp.Compare(a.Name, b.Name))
	})
	report.Top = report.Top[:min(len(report.Top), maxCosts)]
	return report
}

func total(c *slo.CRDCost) int64 { return c.DefinitionBytes + c.ObjectBytes + c.CompiledBytes }

// cost returns the memory of a definition, and whether it was asked for since the start.
func (s *Server) cost(d *Definition) (cost slo.CRDCost, asked bool) {
	cost = slo.CRDCost{Name: d.Name, DefinitionBytes: s.catalog.size(d.Name), Webhook: d.Webhook}
	s.mu.Lock()
	current, retained := s.mu.served[d.UID], s.mu.retained[d.UID]
	s.mu.Unlock()
	if current != nil {
		cost.CompiledBytes = s.compiled.size(&current.schemaSlot.entry, &current.writerSlot.entry)
	}
	if retained != nil {
		snapshot := retained.resource.Snapshot()
		cost.Objects, cost.ObjectBytes = snapshot.Len(), snapshot.Packed
		return cost, true
	}
	options, err := s.options.GetRESTOptions(schema.GroupResource{Group: d.Group, Resource: d.Wanted.Plural}, nil)
	if err == nil {
		prefix := storage.EtcdPrefix(options.StorageConfig.Prefix, options.ResourcePrefix)
		cost.Objects, cost.ObjectBytes = s.catalog.store.Cache().Unclaimed(prefix)
	}
	return cost, current != nil
}
