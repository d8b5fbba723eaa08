package crd

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/millrace/millrace/internal/apiserver/crd/definitioncodec"
)

// reducedValidation is a strategy that validates new definitions faster.
//
// Most of a large schema is properties that have a type and a description only. Nothing
// can be wrong with them, but each costs Kubernetes' validation a path, three copies and
// a validator. So Kubernetes first validates a reduced definition, without those
// properties. If it finds an error, it validates the whole definition. So all errors that a
// client sees are about the definition as it was sent. An invalid definition therefore
// costs more than without the reduction.
type reducedValidation struct{ rest.RESTCreateStrategy }

// Validate implements rest.RESTCreateStrategy.
func (s reducedValidation) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	if full, ok := obj.(*apiextensions.CustomResourceDefinition); ok {
		if reduced, ok := reducedDefinition(full); ok && len(s.RESTCreateStrategy.Validate(ctx, reduced)) == 0 {
			return nil
		}
	}
	return s.RESTCreateStrategy.Validate(ctx, obj)
}

// reducedDefinition returns a copy of full without trivial properties, which is valid exactly if
// full is. It returns false if it knows no such copy. The copy shares memory with full.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation.ValidateCustomResourceDefinition; compare at each upgrade.
func reducedDefinition(full *apiextensions.CustomResourceDefinition) (*apiextensions.CustomResourceDefinition, bool) {
	if sameSchemas(full.Spec.Versions) {
		return nil, false
	}
	reduced := *full
	reduced.Spec.Versions = slices.Clone(full.Spec.Versions)
	patterns := patternValidity{}
	for place, schema := range definitioncodec.Schemas(&reduced) {
		if *schema == nil || (*schema).OpenAPIV3Schema == nil {
			continue
		}
		selectable := full.Spec.SelectableFields
		if place != definitioncodec.AllVersions {
			selectable = full.Spec.Versions[place].SelectableFields
		}
		paths, ok := selectablePaths(selectable)
		if !ok {
			return nil, false
		}
		root := *patterns.reducedAlong((*schema).OpenAPIV3Schema, paths)
		if place == 0 {
			// The reduced schemas of two versions must differ if the schemas did.
			root.Description += "."
		}
		*schema = &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &root}
	}
	return &reduced, true
}

// simplePath matches the paths of selectable fields whose names can be told without a
// parser.
var simplePath = regexp.MustCompile(`^(\.[A-Za-z0-9_]+)+$`)

// selectablePaths returns the names on the paths of selectable fields. It returns false
// if one of the paths is not simple.
func selectablePaths(fields []apiextensions.SelectableField) (paths [][]string, ok bool) {
	for _, f := range fields {
		if !simplePath.MatchString(f.JSONPath) {
			return nil, false
		}
		paths = append(paths, strings.Split(f.JSONPath[1:], "."))
	}
	return paths, true
}

// sameSchemas reports whether all versions have the same schema. Kubernetes' validation
// then demands that it is in spec.validation.
func sameSchemas(versions []apiextensions.CustomResourceDefinitionVersion) bool {
	for i := range versions {
		if versions[i].Schema == nil || !apiequality.Semantic.DeepEqual(versions[i].Schema, versions[0].Schema) {
			return false
		}
	}
	return len(versions) > 0
}

// patternValidity has regular expressions and whether they are valid, so that each is
// compiled once for a definition.
type patternValidity map[string]bool

func (p patternValidity) valid(pattern string) bool {
	valid, known := p[pattern]
	if !known {
		_, err := regexp.Compile(pattern)
		valid = err == nil
		p[pattern] = valid
	}
	return valid
}

// reducedAlong reduces a schema but keeps the properties on the paths, and the schema
// itself.
func (p patternValidity) reducedAlong(s *apiextensions.JSONSchemaProps, paths [][]string) *apiextensions.JSONSchemaProps {
	if !p.trivial(s) || s.Type != "object" || s.AdditionalProperties != nil {
		return s
	}
	reduced := *s
	reduced.Properties = p.properties(s.Properties, paths)
	return &reduced
}

// reduced returns a schema without trivial properties. It returns nil if nothing is left.
//
// A schema that is not trivial is kept with all that it contains: its rules, defaults and
// list keys refer to what is below it. Nothing refers to what is beside it.
func (p patternValidity) reduced(s *apiextensions.JSONSchemaProps) *apiextensions.JSONSchemaProps {
	if !p.trivial(s) {
		return s
	}
	reduced := *s
	switch {
	case s.Items != nil:
		item := p.reduced(s.Items.Schema)
		if item == nil {
			return nil
		}
		reduced.Items = &apiextensions.JSONSchemaPropsOrArray{Schema: item}
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		value := p.reduced(s.AdditionalProperties.Schema)
		if value == nil {
			return nil
		}
		reduced.AdditionalProperties = &apiextensions.JSONSchemaPropsOrBool{Allows: s.AdditionalProperties.Allows, Schema: value}
	default:
		if reduced.Properties = p.properties(s.Properties, nil); reduced.Properties == nil {
			return nil
		}
	}
	return &reduced
}

// metaProperties are the properties that Kubernetes' validation looks for by name.
var metaProperties = sets.New("apiVersion", "kind", "metadata")

// properties returns the properties that are not trivial, reduced, and those on the paths. It
// returns nil if there are none.
func (p patternValidity) properties(all map[string]apiextensions.JSONSchemaProps, paths [][]string) (reduced map[string]apiextensions.JSONSchemaProps) {
	for name, s := range all {
		kept, below := &s, pathsBelow(paths, name)
		switch {
		case metaProperties.Has(name):
		case below != nil:
			kept = p.reducedAlong(kept, below)
		default:
			kept = p.reduced(kept)
		}
		if kept == nil {
			continue
		}
		if reduced == nil {
			reduced = map[string]apiextensions.JSONSchemaProps{}
		}
		reduced[name] = *kept
	}
	return reduced
}

// pathsBelow returns the remainders of the paths that begin with a name.
func pathsBelow(paths [][]string, name string) (rest [][]string) {
	for _, path := range paths {
		if len(path) > 0 && path[0] == name {
			rest = append(rest, path[1:])
		}
	}
	return rest
}

// trivial reports whether a schema can be invalid only by its properties, items or
// values, which the caller must look at.
func (p patternValidity) trivial(s *apiextensions.JSONSchemaProps) bool {
	if hasOtherKeywords(s) || s.Pattern != "" && !p.valid(s.Pattern) {
		return false
	}
	items, values, properties := s.Items != nil, s.AdditionalProperties != nil, len(s.Properties) > 0
	if s.XIntOrString {
		return s.Type == "" && !items && !values && !properties
	}
	switch s.Type {
	case "string", "number", "integer", "boolean":
		return !items && !values && !properties
	case "array":
		return items && s.Items.Schema != nil && len(s.Items.JSONSchemas) == 0 && !values && !properties
	case "object":
		return !items && (!values || !properties)
	}
	return false
}

// hasOtherKeywords reports whether a schema has keywords that Kubernetes' validation
// looks at, besides the keywords that trivial and its callers check.
func hasOtherKeywords(s *apiextensions.JSONSchemaProps) bool {
	return s.ID != "" || s.Schema != "" || s.Ref != nil || s.Default != nil || s.UniqueItems || s.MultipleOf != nil ||
		len(s.AllOf) > 0 || len(s.OneOf) > 0 || len(s.AnyOf) > 0 || s.Not != nil ||
		s.PatternProperties != nil || s.Dependencies != nil || s.AdditionalItems != nil || s.Definitions != nil ||
		s.ExternalDocs != nil || s.Example != nil || s.XPreserveUnknownFields != nil || s.XEmbeddedResource ||
		s.XListMapKeys != nil || s.XListType != nil || s.XMapType != nil || len(s.XValidations) > 0
}
