package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/kube-openapi/pkg/aggregator"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/apiserver/crd"
	"github.com/millrace/millrace/internal/apiserver/openapi/publish"
)

// mergeBase merges specs in the order in which the stock server does. Custom resources go
// into the last local server's spec. Then the specs of the local servers are merged one after
// the other, and last the specs of services. All local specs but the first are encoded and
// decoded before they are merged. mergeBase changes locals.
//
// Upstream: k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator.specAggregator.buildMergeSpecLocked; compare at each upgrade.
func (s *Server) mergeBase(locals, remotes []*spec.Swagger, split *baseSplit) (*base, error) {
	var resources []*spec.Swagger
	for _, shape := range split.shapes {
		exemplar, err := publish.BuildV2(shape.Exemplar(), publish.ExemplarVersion)
		if err != nil {
			return nil, err
		}
		resources = append(resources, exemplar)
	}
	before, err := exemplarText(resources...)
	if err != nil {
		return nil, err
	}
	made := &base{conflicting: map[string]bool{}}
	for _, d := range split.conflicting {
		made.conflicting[d.Name] = true
		built, err := s.buildOrMiss(d, made)
		if err != nil {
			return nil, err
		}
		if built != nil {
			resources = append(resources, built)
		}
	}
	last := len(locals) - 1
	if locals[last], err = builder.MergeSpecs(locals[last], resources...); err != nil {
		return nil, fmt.Errorf("merge custom resources: %w", err)
	}
	merged := new(spec.Swagger)
	*merged = *locals[0]
	merged.Paths, merged.Definitions, merged.Parameters = nil, nil, nil
	for i, local := range locals {
		if i > 0 {
			if local, err = publish.ThroughJSON(local); err != nil {
				return nil, err
			}
		}
		if err := aggregator.MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters(merged, local); err != nil {
			return nil, fmt.Errorf("merge specs of local servers: %w", err)
		}
	}
	for _, remote := range remotes {
		if err := aggregator.MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters(merged, remote); err != nil {
			return nil, fmt.Errorf("merge specs of services: %w", err)
		}
	}
	after, err := exemplarText(merged)
	if err != nil {
		return nil, err
	}
	if err := made.rename(before, after); err != nil {
		return nil, err
	}
	removeExemplars(merged)
	return made, made.encode(merged)
}

// buildOrMiss is buildWhole. If a definition cannot be read or its builder panics, it
// is left out and the base is incomplete.
func (s *Server) buildOrMiss(d *crd.Definition, made *base) (built *spec.Swagger, err error) {
	err = s.config.Panics.Guard(panics.OpenAPI, func() (err error) {
		built, err = s.buildWhole(d)
		return err
	})
	if failure := (*panics.Error)(nil); errors.Is(err, errUnreadable) || errors.As(err, &failure) {
		s.logMissing(d, err)
		made.incomplete = true
		return nil, nil
	}
	return built, err
}

// buildWhole builds the spec of all served versions of a definition. It returns nil if
// Kubernetes' builder fails.
func (s *Server) buildWhole(d *crd.Definition) (*spec.Swagger, error) {
	full, err := s.full(d)
	if err != nil {
		return nil, err
	}
	whole := &spec.Swagger{}
	for _, version := range full.Spec.Versions {
		if !version.Served {
			continue
		}
		built, err := publish.BuildV2(full, version.Name)
		if err != nil {
			s.logMissing(d, err)
			return nil, nil
		}
		if whole, err = builder.MergeSpecs(whole, built); err != nil {
			s.logMissing(d, err)
			return nil, nil
		}
	}
	return whole, nil
}

// exemplarText returns the JSON of the exemplars in specs. Where two specs have the same
// name the later one counts, as in a merge.
func exemplarText(specs ...*spec.Swagger) (string, error) {
	paths, definitions := map[string]spec.PathItem{}, map[string]spec.Schema{}
	for _, s := range specs {
		if s.Paths == nil {
			continue
		}
		for path, item := range s.Paths.Paths {
			if strings.HasPrefix(path, publish.ExemplarPaths) {
				paths[path] = item
			}
		}
		for name, schema := range s.Definitions {
			if strings.HasPrefix(name, publish.ExemplarModels) {
				definitions[name] = schema
			}
		}
	}
	out, err := json.Marshal([]any{paths, definitions})
	if err != nil {
		return "", fmt.Errorf("encode exemplars: %w", err)
	}
	return string(out), nil
}

// removeExemplars takes the exemplars out of a spec.
func removeExemplars(s *spec.Swagger) {
	if s.Paths != nil {
		for path := range s.Paths.Paths {
			if strings.HasPrefix(path, publish.ExemplarPaths) {
				delete(s.Paths.Paths, path)
			}
		}
	}
	for name := range s.Definitions {
		if strings.HasPrefix(name, publish.ExemplarModels) {
			delete(s.Definitions, name)
		}
	}
}

// reference matches references to what documents share.
var reference = regexp.MustCompile(`"\$ref":"#/(definitions|parameters)/[^"]+"`)

// rename learns from the exemplars, as they were before and after the merge, which
// references the merger has renamed.
func (b *base) rename(before, after string) error {
	old, renamed := reference.FindAllString(before, -1), reference.FindAllString(after, -1)
	if len(old) != len(renamed) {
		return fmt.Errorf("exemplars have %d references, and %d when merged", len(old), len(renamed))
	}
	pairs := map[string]string{}
	for i := range old {
		if old[i] != renamed[i] {
			pairs[old[i]] = renamed[i]
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	sum := newContentHash()
	var list []string
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		list = append(list, name, pairs[name])
		sum.addText(name)
		sum.addText(pairs[name])
	}
	b.renamed, b.renames = strings.NewReplacer(list...), sum.sum64()
	return nil
}
