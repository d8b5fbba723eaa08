package crd

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/account/serverreport"
	"github.com/millrace/millrace/internal/tier/storage"
)

// maxCosts bounds the definitions in a report.
const maxCosts = 100

// Costs reports the memory that definitions take: of all together, and of each of the maxCosts
// most expensive ones. It visits all definitions.
func (s *Server) Costs() serverreport.CRDsReport {
	_, bytes := s.compiled.usage()
	result := serverreport.CRDsReport{
		Time: s.cfg.Clock.Now(), Top: []serverreport.CRDCost{}, CompiledBytes: bytes, CompiledLimit: s.cfg.CompiledBytes,
	}
	result.References, result.Retired = s.references()
	for _, d := range s.catalog.All() {
		cost, inUse := s.cost(d)
		result.Definitions++
		if inUse || cost.Objects > 0 {
			result.Served++
		}
		if cost.CompiledBytes > 0 {
			result.Compiled++
		}
		result.Top = append(result.Top, cost)
	}
	slices.SortFunc(result.Top, func(a, b serverreport.CRDCost) int {
		return cmp.Or(cmp.Compare(total(&b), total(&a)), cmp.Compare(a.Name, b.Name))
	})
	result.Top = result.Top[:min(len(result.Top), maxCosts)]
	return result
}

// references returns the number of references to all servedDefinitions, and how many
// servedDefinitions are retired and have not ended.
func (s *Server) references() (held int64, retired int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, current := range s.mu.served {
		held += current.references.number()
	}
	for old := range s.mu.retired {
		held += old.references.number()
	}
	return held, len(s.mu.retired)
}

func total(c *serverreport.CRDCost) int64 { return c.DefinitionBytes + c.ObjectBytes + c.CompiledBytes }

// cost returns the memory of a definition, and whether it is in use.
func (s *Server) cost(d *Definition) (cost serverreport.CRDCost, inUse bool) {
	cost = serverreport.CRDCost{Name: d.Name, DefinitionBytes: s.catalog.size(d.Name), Webhook: d.Webhook}
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
		cost.Objects, cost.ObjectBytes = s.catalog.store.Cache().UnclaimedSize(prefix)
	}
	return cost, current != nil
}
