package openapi

import (
	"regexp/syntax"

	"github.com/millrace/millrace/internal/storedjson"
)

// What a schema has to be for Kubernetes to publish it (ValidateStructural of
// k8s.io/apiextensions-apiserver/pkg/apiserver/schema). What does not meet this
// is left to that code, so these rules may be stricter than it.

var (
	junctors = setOf(fieldAllOf, fieldOneOf, fieldAnyOf, fieldNot)
	// nestedFields are those that a schema below a junctor may have.
	nestedFields = junctors | setOf(fieldFormat, fieldMaximum, fieldExclusiveMaximum, fieldMinimum, fieldExclusiveMinimum,
		fieldMaxLength, fieldMinLength, fieldPattern, fieldMaxItems, fieldMinItems, fieldUniqueItems, fieldMultipleOf,
		fieldEnum, fieldMaxProperties, fieldMinProperties, fieldRequired, fieldItems, fieldProperties)
)

// structural reports whether a node is such a schema, of a whole kind or of a
// value in it.
func (t *tree) structural(n uint32, root bool) bool {
	s := &t.nodes[n]
	if !t.typed(s, root) || !t.validated(s, s, t.intOrString(s, fieldAnyOf), t.intOrStringFirst(s)) {
		return false
	}
	if s.set.has(fieldItems) && !t.structural(s.at[fieldItems].from, false) {
		return false
	}
	if schema, ok := s.additional(); ok && !t.structural(schema, false) {
		return false
	}
	for e := s.at[fieldProperties].from; e != 0; e = t.entries[e].next {
		if !t.structural(t.entries[e].node, false) {
			return false
		}
		if (root || s.set.has(fieldEmbedded)) && !t.native(e, root) {
			return false
		}
	}
	return true
}

// typed checks a node's type and extensions.
func (t *tree) typed(s *node, root bool) bool {
	kind := string(t.text(s.at[fieldType]))
	switch kind {
	case "object", "string", "integer", "number", "boolean":
	case "array":
		if !s.set.has(fieldItems) {
			return false
		}
	case "":
		if !s.set.has(fieldIntOrString) && !s.set.has(fieldPreserve) {
			return false
		}
	default:
		return false
	}
	if s.set.has(fieldIntOrString) && (s.set.has(fieldPreserve) || s.set.has(fieldEmbedded)) {
		return false
	}
	if root && (kind != "object" || s.set&setOf(fieldAdditional, fieldEmbedded) != 0) {
		return false
	}
	return !s.set.has(fieldEmbedded) ||
		kind == "object" && !s.set.has(fieldAdditional) && (s.set.has(fieldPreserve) || s.set.has(fieldProperties))
}

// native checks a property of an object if it is one that Kubernetes knows.
func (t *tree) native(e uint32, root bool) bool {
	s := &t.nodes[t.entries[e].node]
	switch string(t.text(t.entries[e].name)) {
	case "kind", "apiVersion":
		return string(t.text(s.at[fieldType])) == "string"
	case "metadata":
		return string(t.text(s.at[fieldType])) == "object" && (!root || s.set == setOf(fieldType))
	}
	return true
}

// additional is the schema of a node's additional properties.
func (s *node) additional() (uint32, bool) {
	at := s.at[fieldAdditional]
	return at.from, s.set.has(fieldAdditional) && at.from == at.to
}

// validated checks what v says of the values of whole, which is v itself or has
// it below its junctors. skip leaves out an anyOf, and that of the first allOf.
func (t *tree) validated(v, whole *node, skip, skipFirst bool) bool {
	if v.set.has(fieldPattern) && !t.pattern(v.at[fieldPattern]) {
		return false
	}
	if v.set&junctors == 0 {
		return true
	}
	for _, f := range []field{fieldAllOf, fieldOneOf, fieldAnyOf} {
		if f == fieldAnyOf && skip {
			continue
		}
		first := f == fieldAllOf && skipFirst
		for e := v.at[f].from; e != 0; e = t.entries[e].next {
			if !t.nested(t.entries[e].node, whole, first) {
				return false
			}
			first = false
		}
	}
	return !v.set.has(fieldNot) || t.nested(v.at[fieldNot].from, whole, false)
}

// nested checks a schema below a junctor of whole: it says nothing of what whole
// does not have.
func (t *tree) nested(n uint32, whole *node, skip bool) bool {
	v := &t.nodes[n]
	if v.set&^nestedFields != 0 || !t.validated(v, whole, skip, false) {
		return false
	}
	if v.set.has(fieldItems) && (!whole.set.has(fieldItems) || !t.nested(v.at[fieldItems].from, &t.nodes[whole.at[fieldItems].from], false)) {
		return false
	}
	for e := v.at[fieldProperties].from; e != 0; e = t.entries[e].next {
		name := string(t.text(t.entries[e].name))
		of := t.property(whole, name)
		if name == "metadata" || of == nil || !t.nested(t.entries[e].node, of, false) {
			return false
		}
	}
	return true
}

// property finds a node's property, nil if it has none of that name.
func (t *tree) property(s *node, name string) *node {
	for e := s.at[fieldProperties].from; e != 0; e = t.entries[e].next {
		if string(t.text(t.entries[e].name)) == name {
			return &t.nodes[t.entries[e].node]
		}
	}
	return nil
}

// pattern reports whether a regular expression compiles: all that can fail is
// the parser.
func (t *tree) pattern(s span) bool {
	expression, ok := storedjson.Unquote(t.text(s))
	if !ok {
		return false
	}
	_, err := syntax.Parse(expression, syntax.Perl)
	return err == nil
}

// intOrString reports whether a list is the two types and nothing else.
func (t *tree) intOrString(s *node, f field) bool {
	e := s.at[f].from
	for _, kind := range []string{"integer", "string"} {
		if e == 0 {
			return false
		}
		if of := &t.nodes[t.entries[e].node]; of.set != setOf(fieldType) || string(t.text(of.at[fieldType])) != kind {
			return false
		}
		e = t.entries[e].next
	}
	return e == 0
}

// intOrStringFirst reports whether the first of all schemas has that list.
func (t *tree) intOrStringFirst(s *node) bool {
	e := s.at[fieldAllOf].from
	return e != 0 && t.intOrString(&t.nodes[t.entries[e].node], fieldAnyOf)
}
