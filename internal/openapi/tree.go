package openapi

import (
	"bytes"

	"github.com/millrace/millrace/internal/storedjson"
)

// keyword is a keyword of a schema that can be published straight from its text.
// The order is that in which they are written, and no promise.
type keyword uint8

const (
	keywordDescription keyword = iota
	keywordType
	keywordFormat
	keywordTitle
	keywordDefault
	keywordMaximum
	keywordExclusiveMaximum
	keywordMinimum
	keywordExclusiveMinimum
	keywordMaxLength
	keywordMinLength
	keywordPattern
	keywordMaxItems
	keywordMinItems
	keywordUniqueItems
	keywordMultipleOf
	keywordEnum
	keywordMaxProperties
	keywordMinProperties
	keywordNullable
	keywordExample
	keywordRequired
	keywordItems
	keywordProperties
	keywordAdditional
	keywordAllOf
	keywordOneOf
	keywordAnyOf
	keywordNot
	keywordEmbedded
	keywordIntOrString
	keywordMapKeys
	keywordListType
	keywordMapType
	keywordPreserve
	keywordRules
	keywordCount
)

// keywordNames are as they stand in a definition and in a document.
var keywordNames = [keywordCount]string{
	keywordDescription: "description", keywordType: "type", keywordFormat: "format", keywordTitle: "title",
	keywordDefault: "default", keywordMaximum: "maximum", keywordExclusiveMaximum: "exclusiveMaximum",
	keywordMinimum: "minimum", keywordExclusiveMinimum: "exclusiveMinimum", keywordMaxLength: "maxLength",
	keywordMinLength: "minLength", keywordPattern: "pattern", keywordMaxItems: "maxItems", keywordMinItems: "minItems",
	keywordUniqueItems: "uniqueItems", keywordMultipleOf: "multipleOf", keywordEnum: "enum",
	keywordMaxProperties: "maxProperties", keywordMinProperties: "minProperties", keywordNullable: "nullable",
	keywordExample: "example", keywordRequired: "required", keywordItems: "items", keywordProperties: "properties",
	keywordAdditional: "additionalProperties", keywordAllOf: "allOf", keywordOneOf: "oneOf", keywordAnyOf: "anyOf",
	keywordNot: "not", keywordEmbedded: "x-kubernetes-embedded-resource", keywordIntOrString: "x-kubernetes-int-or-string",
	keywordMapKeys: "x-kubernetes-list-map-keys", keywordListType: "x-kubernetes-list-type",
	keywordMapType: "x-kubernetes-map-type", keywordPreserve: "x-kubernetes-preserve-unknown-fields",
	keywordRules: "x-kubernetes-validations",
}

var keywordByName = func() map[string]keyword {
	all := map[string]keyword{}
	for f, name := range keywordNames {
		all[name] = keyword(f)
	}
	return all
}()

// keywordSet is some of them.
type keywordSet uint64

func keywords(all ...keyword) keywordSet {
	var s keywordSet
	for _, f := range all {
		s |= 1 << f
	}
	return s
}

func (s keywordSet) has(f keyword) bool { return s>>f&1 != 0 }

// span is a part of the text, of strings without the quotes.
type span struct{ from, to uint32 }

// schemaNode is a schema.
type schemaNode struct {
	set keywordSet
	// at is where a field's value is: in the text, or for schemas in the tree: from
	// is the node, or the first entry of several. Of additionalProperties that are a
	// schema both ends are the node.
	at [keywordCount]span
	// nullable says that one of the properties is.
	nullable bool
}

// noNode is the first node of a tree, which is no schema.
const noNode = 0

// schemaEntry is a property, or a schema in a list. The first entry of the tree is
// nobody's: next is 0 at the end.
type schemaEntry struct {
	name       span
	node, next uint32
}

// schemaTree is the schemas of a definition, read out of its stored text without
// decoding it. It takes nothing but what Kubernetes itself writes and what the
// package can publish as Kubernetes does; anything else it refuses, and the
// definition is decoded and published by Kubernetes' code.
//
// The text is JSON that Kubernetes has decoded before, so it is well formed.
type schemaTree struct {
	storedjson.Lexer
	nodes   []schemaNode
	entries []schemaEntry
}

// deepest is how many levels of schemas and values are followed.
const deepest = 100

func (t *schemaTree) reset(stored []byte) {
	*t = schemaTree{Lexer: storedjson.NewLexer(stored), nodes: append(t.nodes[:0], schemaNode{}), entries: append(t.entries[:0], schemaEntry{})}
}

func (t *schemaTree) text(s span) []byte { return t.Text(int(s.from), int(s.to)) }

// string reads one and returns where it stands.
func (t *schemaTree) string() span {
	quoted := t.Quoted()
	to := max(t.Offset()-1, len(quoted))
	return span{uint32(to - len(quoted)), uint32(to)}
}

// sortedValue reads any value whose objects have their keys in order.
func (t *schemaTree) sortedValue(depth int) {
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
