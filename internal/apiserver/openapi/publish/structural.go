package publish

import (
	"regexp/syntax"

	"github.com/millrace/millrace/internal/wire/storedjson"
)

// This file has the rules of structural schemas, which are the schemas that Kubernetes
// publishes: ValidateStructural of k8s.io/apiextensions-apiserver/pkg/apiserver/schema.
// Schemas that break a rule here are left to that code, so the rules may be stricter.

var (
	// applicators are the keywords that apply other schemas to the same value.
	applicators = keywords(keywordAllOf, keywordOneOf, keywordAnyOf, keywordNot)
	// nestedKeywords are the keywords that a schema below an applicator may have.
	nestedKeywords = applicators | keywords(keywordFormat, keywordMaximum, keywordExclusiveMaximum, keywordMinimum, keywordExclusiveMinimum,
		keywordMaxLength, keywordMinLength, keywordPattern, keywordMaxItems, keywordMinItems, keywordUniqueItems, keywordMultipleOf,
		keywordEnum, keywordMaxProperties, keywordMinProperties, keywordRequired, keywordItems, keywordProperties)
)

// structural reports whether node n is a structural schema: of a whole object if root is
// set, of a value inside otherwise.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apiserver/schema.ValidateStructural; compare at each upgrade.
func (t *schemaTree) structural(n uint32, root bool) bool {
	s := &t.nodes[n]
	if !t.typed(s, root) || !t.validated(s, s, t.intOrString(s, keywordAnyOf), t.intOrStringFirst(s)) {
		return false
	}
	if s.set.has(keywordItems) && !t.structural(s.places[keywordItems].from, false) {
		return false
	}
	if schema, ok := s.additional(); ok && !t.structural(schema, false) {
		return false
	}
	for e := s.places[keywordProperties].from; e != 0; e = t.entries[e].next {
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
	kind := string(t.text(s.places[keywordType]))
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

// validBuiltin checks entry e if it is a property that every object has.
func (t *schemaTree) validBuiltin(e uint32, root bool) bool {
	s := &t.nodes[t.entries[e].node]
	switch string(t.text(t.entries[e].name)) {
	case "kind", "apiVersion":
		return string(t.text(s.places[keywordType])) == "string"
	case "metadata":
		return string(t.text(s.places[keywordType])) == "object" && (!root || s.set == keywords(keywordType))
	}
	return true
}

// additional returns the node of the schema of additional properties. It returns false if
// there is none.
func (s *schemaNode) additional() (uint32, bool) {
	at := s.places[keywordAdditional]
	return at.from, s.set.has(keywordAdditional) && at.from == at.to
}

// validated checks the value validations of v, which is whole itself or stands below an
// applicator of whole. skip leaves out its anyOf, and skipFirst the anyOf of its first
// allOf: int-or-string schemas have the two types there.
func (t *schemaTree) validated(v, whole *schemaNode, skip, skipFirst bool) bool {
	if v.set.has(keywordPattern) && !t.pattern(v.places[keywordPattern]) {
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
		for e := v.places[f].from; e != 0; e = t.entries[e].next {
			if !t.nested(t.entries[e].node, whole, first) {
				return false
			}
			first = false
		}
	}
	return !v.set.has(keywordNot) || t.nested(v.places[keywordNot].from, whole, false)
}

// nested checks node n below an applicator of whole. It must not mention properties or
// items that whole does not have.
func (t *schemaTree) nested(n uint32, whole *schemaNode, skip bool) bool {
	v := &t.nodes[n]
	if v.set&^nestedKeywords != 0 || !t.validated(v, whole, skip, false) {
		return false
	}
	if v.set.has(keywordItems) && (!whole.set.has(keywordItems) || !t.nested(v.places[keywordItems].from, &t.nodes[whole.places[keywordItems].from], false)) {
		return false
	}
	for e := v.places[keywordProperties].from; e != 0; e = t.entries[e].next {
		name := string(t.text(t.entries[e].name))
		of := t.property(whole, name)
		if name == "metadata" || of == nil || !t.nested(t.entries[e].node, of, false) {
			return false
		}
	}
	return true
}

// property returns a property of s by name. It returns nil if there is none.
func (t *schemaTree) property(s *schemaNode, name string) *schemaNode {
	for e := s.places[keywordProperties].from; e != 0; e = t.entries[e].next {
		if string(t.text(t.entries[e].name)) == name {
			return &t.nodes[t.entries[e].node]
		}
	}
	return nil
}

// pattern reports whether a regular expression compiles. Only its parser can fail.
func (t *schemaTree) pattern(s span) bool {
	expression, ok := storedjson.Unquote(t.text(s))
	if !ok {
		return false
	}
	_, err := syntax.Parse(expression, syntax.Perl)
	return err == nil
}

// intOrString reports whether the list at f is the types integer and string and nothing
// else.
func (t *schemaTree) intOrString(s *schemaNode, f keyword) bool {
	e := s.places[f].from
	for _, kind := range []string{"integer", "string"} {
		if e == 0 {
			return false
		}
		if of := &t.nodes[t.entries[e].node]; of.set != keywords(keywordType) || string(t.text(of.places[keywordType])) != kind {
			return false
		}
		e = t.entries[e].next
	}
	return e == 0
}

// intOrStringFirst reports whether the first schema of allOf has such a list as anyOf.
func (t *schemaTree) intOrStringFirst(s *schemaNode) bool {
	e := s.places[keywordAllOf].from
	return e != 0 && t.intOrString(&t.nodes[t.entries[e].node], keywordAnyOf)
}
