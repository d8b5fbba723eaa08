package publish

import (
	"bytes"

	"github.com/millrace/millrace/internal/wire/storedjson"
)

// span is a part of the stored text, given by offsets. The span of a string excludes its
// quotes.
type span struct{ from, to uint32 }

// schemaNode is one schema of a definition.
type schemaNode struct {
	// set has the keywords of the schema.
	set keywordSet
	// places has the place of each keyword's value. For most keywords it is a span of the
	// text. For keywords that hold schemas, from is an index into the tree: of the node
	// for one schema, of the first entry for several. For additionalProperties that are a
	// schema, from and to are both its node.
	places [keywordCount]span
	// nullable is set if one of the schema's properties is nullable.
	nullable bool
}

// noNode is the index of the first node of a tree, which stands for no schema.
const noNode = 0

// schemaEntry is a property, or a schema of a list. Entries of one schema are linked by
// next, which is 0 at the end. Entry 0 of a tree is unused.
type schemaEntry struct {
	name       span
	node, next uint32
}

// schemaTree holds the schemas of one definition as positions in its stored text.
//
// It refuses text that Kubernetes would not write and keywords that this package cannot
// publish. Kubernetes' code then decodes and publishes the definition. The text must be
// well-formed JSON, which it is because Kubernetes has written it.
//
// Nodes and entries are slices of values without pointers, and are used again for the next
// definition. So a tree of thousands of schemas costs no allocation, and the collector has
// nothing to follow.
type schemaTree struct {
	storedjson.Lexer
	nodes   []schemaNode
	entries []schemaEntry
}

// deepest is the maximum nesting of schemas and values.
const deepest = 100

func (t *schemaTree) reset(stored []byte) {
	*t = schemaTree{Lexer: storedjson.NewLexer(stored), nodes: append(t.nodes[:0], schemaNode{}), entries: append(t.entries[:0], schemaEntry{})}
}

func (t *schemaTree) text(s span) []byte { return t.Text(int(s.from), int(s.to)) }

// string reads a string and returns its place.
func (t *schemaTree) string() span {
	quoted := t.QuotedText()
	to := max(t.Offset()-1, len(quoted))
	return span{uint32(to - len(quoted)), uint32(to)}
}

// sortedValue reads a value of any type. It refuses objects whose keys are not in order,
// for documents have them in order.
func (t *schemaTree) sortedValue(depth int) {
	t.RefuseIf(depth > deepest)
	switch t.Peek() {
	case '"':
		t.QuotedText()
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
