package crd

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// The factors are bytes of memory for each byte of a definition's JSON. They are estimates;
// TestCompiledSizes compares them with measurements.
const (
	// schemaFactor is the factor of compiledSchemas.
	schemaFactor = 4
	// typesFactor is the factor of a writerSet, and writerFactor the factor of a
	// versionWriter for its share of the JSON.
	typesFactor  = 2
	writerFactor = 5
)

// ruleSize is the bytes of a compiled CEL expression. Each has a table of all functions.
const ruleSize = 60 << 10

// size returns the bytes of the definition's JSON.
func (s *servedDefinition) size() int64 { return s.server.catalog.size(s.def.Name) }

// rulesSize estimates the bytes of the compiled rules of a schema, which may be nil.
func rulesSize(schema *structuralschema.Structural) int64 {
	if schema == nil {
		return 0
	}
	var expressions int64
	count := func(rules apiextensionsv1.ValidationRules) bool {
		expressions += int64(len(rules))
		for i := range rules {
			if rules[i].MessageExpression != "" {
				expressions++
			}
		}
		return false
	}
	visitor := structuralschema.Visitor{Structural: func(s *structuralschema.Structural) bool { return count(s.XValidations) }}
	visitor.Visit(schema)
	return ruleSize * expressions
}
