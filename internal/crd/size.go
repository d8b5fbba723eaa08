package crd

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// What is compiled takes so many bytes of memory for a byte of a definition's JSON
// (TestCompiledSizes).
const (
	// schemaFactor is for what reading needs.
	schemaFactor = 4
	// typesFactor and writerFactor are for what writing needs beside it: for all
	// versions, and for each of them.
	typesFactor  = 2
	writerFactor = 5
)

// ruleSize is what a compiled CEL expression takes, in bytes: each holds a table of
// all functions.
const ruleSize = 60 << 10

// size is the length of the definition's JSON, in bytes.
func (s *servedDefinition) size() int64 { return s.server.catalog.size(s.def.Name) }

// rulesSize is what the compiled rules of a schema take, in bytes. There may be no
// schema.
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
