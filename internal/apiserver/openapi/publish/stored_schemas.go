package publish

import (
	"bytes"
	"unicode/utf8"

	"github.com/millrace/millrace/internal/wire/storedjson"
)

// storedSchemas are the schemas of a stored definition.
type storedSchemas struct {
	schemaTree
	// common is the node of the schema for all versions. It is noNode if each version has
	// its own schema.
	common uint32
	// byVersion has the nodes of the versions that were read.
	byVersion map[string]uint32
}

// read reads a definition's text and the schemas of one version, or of all versions if
// version is empty. It reports false if they cannot be published from the text.
func (s *storedSchemas) read(stored []byte, version string) bool {
	s.reset(stored)
	s.common = noNode
	if s.byVersion == nil {
		s.byVersion = map[string]uint32{}
	}
	clear(s.byVersion)
	if !utf8.Valid(stored) || storedjson.HasSurrogates(stored) {
		return false
	}
	var apiVersion string
	seen := 0
	for ok := s.BeginObject(); ok; ok = s.NextField() {
		switch string(s.Name()) {
		case "apiVersion":
			apiVersion = string(s.text(s.string()))
			seen++
		case "spec":
			s.RefuseIf(!s.spec(apiVersion, version))
			seen++
		default:
			s.Value()
		}
	}
	return !s.Refused() && seen == 2
}

// spec reads a definition's spec. A v1beta1 spec preserves unknown fields unless it says
// otherwise, and may have one schema for all versions.
func (s *storedSchemas) spec(apiVersion, version string) bool {
	const old, current = "apiextensions.k8s.io/v1beta1", "apiextensions.k8s.io/v1"
	if apiVersion != old && apiVersion != current {
		return false
	}
	pruned := apiVersion == current
	var seen struct{ preserve, validation, versions int }
	for ok := s.BeginObject(); ok; ok = s.NextField() {
		switch string(s.Name()) {
		case "preserveUnknownFields":
			seen.preserve++
			pruned = s.Word("false")
			s.RefuseIf(!pruned)
		case "validation":
			seen.validation++
			s.common = s.validation()
			s.RefuseIf(apiVersion != old)
		case "versions":
			seen.versions++
			for ok := s.BeginList(); ok; ok = s.NextItem() {
				s.version(version)
			}
		default:
			s.Value()
		}
	}
	return pruned && seen.preserve <= 1 && seen.validation <= 1 && seen.versions == 1
}

// version reads one version of the spec, and its schema if wanted is its name or "". The name
// must come before the schema.
func (s *storedSchemas) version(wanted string) {
	var name string
	for ok := s.BeginObject(); ok; ok = s.NextField() {
		switch key := s.Name(); {
		case string(key) == "name":
			s.RefuseIf(name != "")
			name = string(s.text(s.string()))
		case string(key) == "schema" && (wanted == "" || wanted == name):
			s.RefuseIf(name == "" || s.byVersion[name] != noNode)
			s.byVersion[name] = s.validation()
		default:
			s.Value()
		}
	}
}

// validation reads an object that holds one schema, and returns the schema's node.
func (s *storedSchemas) validation() uint32 {
	var found uint32
	for ok := s.BeginObject(); ok; ok = s.NextField() {
		s.RefuseIf(string(s.Name()) != "openAPIV3Schema" || found != noNode)
		found = s.schema(0)
	}
	s.RefuseIf(found == noNode)
	return found
}

// nodeFor returns the node of a version's schema. It returns false if there is none.
func (s *storedSchemas) nodeFor(version string) (uint32, bool) {
	n := s.common
	if n == noNode {
		n = s.byVersion[version]
	}
	return n, n != noNode
}

// schema reads a schema and returns its node.
func (t *schemaTree) schema(depth int) uint32 {
	n := uint32(len(t.nodes))
	t.nodes = append(t.nodes, schemaNode{})
	t.RefuseIf(depth > deepest)
	for ok := t.BeginObject(); ok; ok = t.NextField() {
		f, known := keywordByName[string(t.Name())]
		t.RefuseIf(!known || t.nodes[n].set.has(f))
		if t.Refused() {
			break
		}
		at := t.content(f, n, depth+1)
		t.nodes[n].places[f] = at
		t.nodes[n].set |= 1 << f
	}
	return n
}

// content reads the value of a keyword of node n and returns its place. Values that are
// empty or false are refused, because Kubernetes leaves those out. Only additionalProperties
// may be false.
func (t *schemaTree) content(f keyword, n uint32, depth int) span {
	from := uint32(t.Offset())
	switch f {
	case keywordDescription, keywordType, keywordFormat, keywordTitle, keywordPattern, keywordListType, keywordMapType:
		return t.some(t.string())
	case keywordItems, keywordNot:
		return span{from: t.schema(depth)}
	case keywordProperties:
		return t.properties(n, depth)
	case keywordAllOf, keywordOneOf, keywordAnyOf:
		return t.list(depth)
	case keywordAdditional:
		if t.Word("true") || t.Word("false") {
			break
		}
		schema := t.schema(depth)
		return span{from: schema, to: schema}
	case keywordExclusiveMaximum, keywordExclusiveMinimum, keywordUniqueItems, keywordNullable, keywordEmbedded, keywordIntOrString, keywordPreserve:
		t.RefuseIf(!t.Word("true"))
	case keywordMaximum, keywordMinimum, keywordMultipleOf:
		t.Number(false)
	case keywordMaxLength, keywordMinLength, keywordMaxItems, keywordMinItems, keywordMaxProperties, keywordMinProperties:
		t.Number(true)
	case keywordDefault, keywordExample:
		t.sortedValue(depth)
		t.RefuseIf(string(t.Text(int(from), t.Offset())) == "null")
	case keywordEnum:
		t.RefuseIf(t.items(func() { t.sortedValue(depth) }) == 0)
	case keywordRequired, keywordMapKeys:
		t.RefuseIf(t.items(func() { t.QuotedText() }) == 0)
	case keywordRules:
		t.RefuseIf(t.items(t.rule) == 0)
	}
	return span{from, uint32(t.Offset())}
}

// some refuses an empty string.
func (t *schemaTree) some(s span) span {
	t.RefuseIf(s.from == s.to)
	return s
}

// items reads a list with read, which reads one item, and returns the number of items.
func (t *schemaTree) items(read func()) (count int) {
	for ok := t.BeginList(); ok; ok = t.NextItem() {
		read()
		count++
	}
	return count
}

// properties reads the properties of node n, whose names must be in order, and returns
// their first entry.
func (t *schemaTree) properties(n uint32, depth int) span {
	var first, last uint32
	for ok := t.BeginObject(); ok; ok = t.NextField() {
		name := t.name()
		key := t.text(name)
		t.RefuseIf(last != 0 && bytes.Compare(t.text(t.entries[last].name), key) >= 0)
		made := uint32(len(t.entries))
		t.entries = append(t.entries, schemaEntry{name: name})
		child := t.schema(depth)
		t.entries[made].node = child
		t.nodes[n].nullable = t.nodes[n].nullable || t.nodes[child].set.has(keywordNullable)
		first, last = t.link(first, last, made)
	}
	t.RefuseIf(first == 0)
	return span{from: first}
}

// name reads the name of a field and returns its place.
func (t *schemaTree) name() span {
	name := t.Name()
	to := max(t.Offset()-len(`":`), len(name))
	return span{uint32(to - len(name)), uint32(to)}
}

// list reads a list of schemas and returns its first entry.
func (t *schemaTree) list(depth int) span {
	var first, last uint32
	for ok := t.BeginList(); ok; ok = t.NextItem() {
		made := uint32(len(t.entries))
		t.entries = append(t.entries, schemaEntry{})
		child := t.schema(depth)
		t.entries[made].node = child
		first, last = t.link(first, last, made)
	}
	t.RefuseIf(first == 0)
	return span{from: first}
}

// link appends the entry made to a chain, given by its first and last entries.
func (t *schemaTree) link(first, last, made uint32) (uint32, uint32) {
	if first == 0 {
		return made, made
	}
	t.entries[last].next = made
	return first, made
}

// ruleFields are the fields of a validation rule in the order in which Kubernetes writes
// them.
var ruleFields = [...]string{"rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf"}

// rule reads a validation rule, whose fields must be in order.
func (t *schemaTree) rule() {
	at := 0
	for ok := t.BeginObject(); ok; ok = t.NextField() {
		name := t.Name()
		for at < len(ruleFields) && ruleFields[at] != string(name) {
			at++
		}
		if at == len(ruleFields) {
			t.Refuse()
			return
		}
		if ruleFields[at] == "optionalOldSelf" {
			t.RefuseIf(!t.Word("true") && !t.Word("false"))
		} else {
			t.some(t.string())
		}
		at++
	}
	t.RefuseIf(at == 0)
}
