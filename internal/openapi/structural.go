package openapi

import (
	"regexp/syntax"

	"github.com/millrace/millrace/internal/storedjson"
)

// What a schema has to be for Kubernetes to publish it (ValidateStructural of
// k8s.io/apiextensions-apiserver/pkg/apiserver/schema). What does not meet this
// is left to that code, so these rules may be stricter than it.

var (
	applicators = keywords(keywordAllOf, keywordOneOf, keywordAnyOf, keywordNot)
	// nestedKeywords are those that a schema below a junctor may have.
	nestedKeywords = applicators | keywords(keywordFormat, keywordMaximum, keywordExclusiveMaximum, keywordMinimum, keywordExclusiveMinimum,
		keywordMaxLength, keywordMinLength, keywordPattern, keywordMaxItems, keywordMinItems, keywordUniqueItems, keywordMultipleOf,
		keywordEnum, keywordMaxProperties, keywordMinProperties, keywordRequired, keywordItems, keywordProperties)
)

// structural reports whether a node is such a schema, of a whole kind or of a
// value in it.
func (t *schemaTree) structural(n uint32, root bool) bool {
	s := &t.nodes[n]
	if !t.typed(s, root) || !t.validated(s, s, t.intOrString(s, keywordAnyOf), t.intOrStringFirst(s)) {
		return false
	}
	if s.set.has(keywordItems) && !t.structural(s.at[keywordItems].from, false) {
		return false
	}
	if schema, ok := s.additional(); ok && !t.structural(schema, false) {
		return false
	}
	for e := s.at[keywordProperties].from; e != 0; e = t.entries[e].next {
		if !t.structural(t.entries[e].node, false) {
			return false
		}
		if (root || s.set.has(keywordEmbedded)) && !t.validBuiltin(e, root) {
			return false
		}
	}
	return true
}

// typed checks a node's type and extensions.
func (t *schemaTree) typed(s *schemaNode, root bool) bool {
	kind := string(t.text(s.at[keywordType]))
	switch kind {
	case "object", "string", "integer", "number", "boolean":
	case "array":
		if !s.set.has(keywordItems) {
			return false
		}
	case "":
		if !s.set.has(keywordIntOrString) && !s.set.has(keywordPreserve) {
			return false
		}
	default:
		return false
	}
	if s.set.has(keywordIntOrString) && (s.set.has(keywordPreserve) || s.set.has(keywordEmbedded)) {
		return false
	}
	if root && (kind != "object" || s.set&keywords(keywordAdditional, keywordEmbedded) != 0) {
		return false
	}
	return !s.set.has(keywordEmbedded) ||
		kind == "object" && !s.set.has(keywordAdditional) && (s.set.has(keywordPreserve) || s.set.has(keywordProperties))
}

// validBuiltin checks a property of an object if it is one that Kubernetes knows.
func (t *schemaTree) validBuiltin(e uint32, root bool) bool {
	s := &t.nodes[t.entries[e].node]
	switch string(t.text(t.entries[e].name)) {
	case "kind", "apiVersion":
		return string(t.text(s.at[keywordType])) == "string"
	case "metadata":
		return string(t.text(s.at[keywordType])) == "object" && (!root || s.set == keywords(keywordType))
	}
	return true
}

// additional is the schema of a node's additional properties.
func (s *schemaNode) additional() (uint32, bool) {
	at := s.at[keywordAdditional]
	return at.from, s.set.has(keywordAdditional) && at.from == at.to
}

// validated checks what v says of the values of whole, which is v itself or has
// it below its junctors. skip leaves out an anyOf, and that of the first allOf.
func (t *schemaTree) validated(v, whole *schemaNode, skip, skipFirst bool) bool {
	if v.set.has(keywordPattern) && !t.pattern(v.at[keywordPattern]) {
		return false
	}
	if v.set&applicators == 0 {
		return true
	}
	for _, f := range []keyword{keywordAllOf, keywordOneOf, keywordAnyOf} {
		if f == keywordAnyOf && skip {
			continue
		}
		first := f == keywordAllOf && skipFirst
		for e := v.at[f].from; e != 0; e = t.entries[e].next {
			if !t.nested(t.entries[e].node, whole, first) {
				return false
			}
			first = false
		}
	}
	return !v.set.has(keywordNot) || t.nested(v.at[keywordNot].from, whole, false)
}

// nested checks a schema below a junctor of whole: it says nothing of what whole
// does not have.
func (t *schemaTree) nested(n uint32, whole *schemaNode, skip bool) bool {
	v := &t.nodes[n]
	if v.set&^nestedKeywords != 0 || !t.validated(v, whole, skip, false) {
		return false
	}
	if v.set.has(keywordItems) && (!whole.set.has(keywordItems) || !t.nested(v.at[keywordItems].from, &t.nodes[whole.at[keywordItems].from], false)) {
		return false
	}
	for e := v.at[keywordProperties].from; e != 0; e = t.entries[e].next {
		name := string(t.text(t.entries[e].name))
		of := t.property(whole, name)
		if name == "metadata" || of == nil || !t.nested(t.entries[e].node, of, false) {
			return false
		}
	}
	return true
}

// property finds a node's property, nil if it has none of that name.
func (t *schemaTree) property(s *schemaNode, name string) *schemaNode {
	for e := s.at[keywordProperties].from; e != 0; e = t.entries[e].next {
		if string(t.text(t.entries[e].name)) == name {
			return &t.nodes[t.entries[e].node]
		}
	}
	return nil
}

// pattern reports whether a regular expression compiles: all that can fail is
// the parser.
func (t *schemaTree) pattern(s span) bool {
	expression, ok := storedjson.Unquote(t.text(s))
	if !ok {
		return false
	}
	_, err := syntax.Parse(expression, syntax.Perl)
	return err == nil
}

// intOrString reports whether a list is the two types and nothing else.
func (t *schemaTree) intOrString(s *schemaNode, f keyword) bool {
	e := s.at[f].from
	for _, kind := range []string{"integer", "string"} {
		if e == 0 {
			return false
		}
		if of := &t.nodes[t.entries[e].node]; of.set != keywords(keywordType) || string(t.text(of.at[keywordType])) != kind {
			return false
		}
		e = t.entries[e].next
	}
	return e == 0
}

// intOrStringFirst reports whether the first of all schemas has that list.
func (t *schemaTree) intOrStringFirst(s *schemaNode) bool {
	e := s.at[keywordAllOf].from
	return e != 0 && t.intOrString(&t.nodes[t.entries[e].node], keywordAnyOf)
}
