package openapi

import (
	"bytes"
	"encoding/json"
	"strconv"
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
// package can publish as Kubernetes does; anything else makes it odd, and the
// definition is decoded and published by Kubernetes' code.
//
// The text is JSON that Kubernetes has decoded before, so it is well formed.
type tree struct {
	src     []byte
	at      int
	odd     bool
	nodes   []node
	entries []entry
}

// deepest is how many levels of schemas and values are followed.
const deepest = 100

func (t *tree) reset(src []byte) {
	*t = tree{src: src, nodes: append(t.nodes[:0], node{}), entries: append(t.entries[:0], entry{})}
}

// refuse makes the tree odd on a condition.
func (t *tree) refuse(is bool) {
	if is {
		t.odd = true
	}
}

func (t *tree) text(s span) []byte { return t.src[s.from:s.to] }

// take reads a byte if it is the next one.
func (t *tree) take(c byte) bool {
	if t.at < len(t.src) && t.src[t.at] == c {
		t.at++
		return true
	}
	return false
}

func (t *tree) need(c byte) { t.refuse(!t.take(c)) }

// more is what stands behind each element: whether there is another one.
func (t *tree) more(end byte) bool {
	if t.odd || t.take(end) {
		return false
	}
	t.need(',')
	return !t.odd
}

// string reads one and returns what is between the quotes, as it stands there.
func (t *tree) string() span {
	t.need('"')
	from := t.at
	for !t.odd {
		i := bytes.IndexByte(t.src[t.at:], '"')
		if i < 0 {
			break
		}
		end, before := t.at+i, t.at+i
		t.at = end + 1
		for before > from && t.src[before-1] == '\\' {
			before--
		}
		if (end-before)%2 == 0 {
			return span{uint32(from), uint32(end)}
		}
	}
	t.odd = true
	return span{}
}

// key reads a name and the colon behind it. Names with escapes are odd.
func (t *tree) key() span {
	s := t.string()
	t.need(':')
	t.refuse(bytes.IndexByte(t.text(s), '\\') >= 0)
	return s
}

// object reads one whose values f reads.
func (t *tree) object(f func(key []byte)) {
	t.need('{')
	if t.odd || t.take('}') {
		return
	}
	for {
		key := t.key()
		if t.odd {
			return
		}
		f(t.text(key))
		if !t.more('}') {
			return
		}
	}
}

// array reads one whose elements f reads, and returns how many there are.
func (t *tree) array(f func()) int {
	t.need('[')
	if t.odd || t.take(']') {
		return 0
	}
	for n := 1; ; n++ {
		f()
		if !t.more(']') {
			return n
		}
	}
}

// skip reads any value.
func (t *tree) skip() {
	for depth := 0; !t.odd && t.at < len(t.src); {
		switch t.src[t.at] {
		case '"':
			t.string()
		case '{', '[':
			depth++
			t.at++
			continue
		case '}', ']':
			depth--
			t.at++
		default:
			t.at++
			if depth == 0 && t.at < len(t.src) && bytes.IndexByte([]byte(",]}"), t.src[t.at]) < 0 {
				continue
			}
		}
		if depth == 0 {
			return
		}
	}
	t.odd = true
}

// literal reads one of true, false and null if it is there.
func (t *tree) literal(s string) bool {
	if bytes.HasPrefix(t.src[t.at:], []byte(s)) {
		t.at += len(s)
		return true
	}
	return false
}

// number reads one that is written as Kubernetes writes it. Of those that are
// not whole it makes sure by writing them.
func (t *tree) number(whole bool) {
	from := t.at
	for t.at < len(t.src) && bytes.IndexByte([]byte("0123456789+-.eE"), t.src[t.at]) >= 0 {
		t.at++
	}
	token := t.src[from:t.at]
	digits := bytes.TrimPrefix(token, []byte("-"))
	most := 15 // what any float holds
	if whole {
		most = 18
	}
	if len(digits) > 0 && len(digits) <= most && len(bytes.Trim(digits, "0123456789")) == 0 {
		t.refuse(digits[0] == '0' && len(token) > 1)
		return
	}
	value, err := strconv.ParseFloat(string(token), 64)
	if err != nil || whole {
		t.odd = true
		return
	}
	again, err := json.Marshal(value)
	t.refuse(err != nil || !bytes.Equal(again, token))
}

// value reads any value whose objects have their keys in order.
func (t *tree) value(depth int) {
	if t.odd || depth > deepest || t.at >= len(t.src) {
		t.odd = true
		return
	}
	switch t.src[t.at] {
	case '"':
		t.string()
	case '{':
		last, first := []byte(nil), true
		t.object(func(key []byte) {
			t.refuse(!first && bytes.Compare(last, key) >= 0)
			last, first = key, false
			t.value(depth + 1)
		})
	case '[':
		t.array(func() { t.value(depth + 1) })
	case 't', 'f', 'n':
		t.odd = !t.literal("true") && !t.literal("false") && !t.literal("null")
	default:
		t.number(false)
	}
}
