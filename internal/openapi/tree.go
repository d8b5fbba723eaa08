package openapi

import (
	"bytes"

	"github.com/millrace/millrace/internal/storedjson"
)

// field is a keyword of a schema that can be published straight from its text.
// The order is that in which they are written, and no promise.
type field uint8

const (
	fieldDescription field = iota
	fieldType
	fieldFormat
	fieldTitle
	fieldDefault
	fieldMaximum
	fieldExclusiveMaximum
	fieldMinimum
	fieldExclusiveMinimum
	fieldMaxLength
	fieldMinLength
	fieldPattern
	fieldMaxItems
	fieldMinItems
	fieldUniqueItems
	fieldMultipleOf
	fieldEnum
	fieldMaxProperties
	fieldMinProperties
	fieldNullable
	fieldExample
	fieldRequired
	fieldItems
	fieldProperties
	fieldAdditional
	fieldAllOf
	fieldOneOf
	fieldAnyOf
	fieldNot
	fieldEmbedded
	fieldIntOrString
	fieldMapKeys
	fieldListType
	fieldMapType
	fieldPreserve
	fieldRules
	fieldCount
)

// fieldNames are as they stand in a definition and in a document.
var fieldNames = [fieldCount]string{
	fieldDescription: "description", fieldType: "type", fieldFormat: "format", fieldTitle: "title",
	fieldDefault: "default", fieldMaximum: "maximum", fieldExclusiveMaximum: "exclusiveMaximum",
	fieldMinimum: "minimum", fieldExclusiveMinimum: "exclusiveMinimum", fieldMaxLength: "maxLength",
	fieldMinLength: "minLength", fieldPattern: "pattern", fieldMaxItems: "maxItems", fieldMinItems: "minItems",
	fieldUniqueItems: "uniqueItems", fieldMultipleOf: "multipleOf", fieldEnum: "enum",
	fieldMaxProperties: "maxProperties", fieldMinProperties: "minProperties", fieldNullable: "nullable",
	fieldExample: "example", fieldRequired: "required", fieldItems: "items", fieldProperties: "properties",
	fieldAdditional: "additionalProperties", fieldAllOf: "allOf", fieldOneOf: "oneOf", fieldAnyOf: "anyOf",
	fieldNot: "not", fieldEmbedded: "x-kubernetes-embedded-resource", fieldIntOrString: "x-kubernetes-int-or-string",
	fieldMapKeys: "x-kubernetes-list-map-keys", fieldListType: "x-kubernetes-list-type",
	fieldMapType: "x-kubernetes-map-type", fieldPreserve: "x-kubernetes-preserve-unknown-fields",
	fieldRules: "x-kubernetes-validations",
}

var fieldByName = func() map[string]field {
	all := map[string]field{}
	for f, name := range fieldNames {
		all[name] = field(f)
	}
	return all
}()

// fieldSet is some of them.
type fieldSet uint64

func setOf(all ...field) fieldSet {
	var s fieldSet
	for _, f := range all {
		s |= 1 << f
	}
	return s
}

func (s fieldSet) has(f field) bool { return s>>f&1 != 0 }

// span is a part of the text, of strings without the quotes.
type span struct{ from, to uint32 }

// node is a schema.
type node struct {
	set fieldSet
	// at is where a field's value is: in the text, or for schemas in the tree: from
	// is the node, or the first entry of several. Of additionalProperties that are a
	// schema both ends are the node.
	at [fieldCount]span
	// nullable says that one of the properties is.
	nullable bool
}

// noNode is the first node of a tree, which is no schema.
const noNode = 0

// entry is a property, or a schema in a list. The first entry of the tree is
// nobody's: next is 0 at the end.
type entry struct {
	name       span
	node, next uint32
}

// tree is the schemas of a definition, read out of its stored text without
// decoding it. It takes nothing but what Kubernetes itself writes and what the
// package can publish as Kubernetes does; anything else it refuses, and the
// definition is decoded and published by Kubernetes' code.
//
// The text is JSON that Kubernetes has decoded before, so it is well formed.
type tree struct {
	storedjson.Lexer
	nodes   []node
	entries []entry
}

// deepest is how many levels of schemas and values are followed.
const deepest = 100

func (t *tree) reset(stored []byte) {
	*t = tree{Lexer: storedjson.NewLexer(stored), nodes: append(t.nodes[:0], node{}), entries: append(t.entries[:0], entry{})}
}

func (t *tree) text(s span) []byte { return t.Text(int(s.from), int(s.to)) }

// string reads one and returns where it stands.
func (t *tree) string() span {
	quoted := t.Quoted()
	to := max(t.Offset()-1, len(quoted))
	return span{uint32(to - len(quoted)), uint32(to)}
}

// sortedValue reads any value whose objects have their keys in order.
func (t *tree) sortedValue(depth int) {
	t.RefuseIf(depth > deepest)
	switch t.Peek() {
	case '"':
		t.Quoted()
	case '{':
		var last []byte
		first := true
		for ok := t.BeginObject(); ok; ok = t.NextField() {
			name := t.Name()
			t.RefuseIf(!first && bytes.Compare(last, name) >= 0)
			last, first = name, false
			t.sortedValue(depth + 1)
		}
	case '[':
		for ok := t.BeginList(); ok; ok = t.NextItem() {
			t.sortedValue(depth + 1)
		}
	case 't', 'f', 'n':
		t.RefuseIf(!t.Word("true") && !t.Word("false") && !t.Word("null"))
	case 0:
		t.Refuse()
	default:
		t.Number(false)
	}
}
