package openapi

import (
	"bytes"
	"unicode/utf8"

	"github.com/millrace/millrace/internal/storedjson"
)

// storedSchemas are the schemas of a stored definition, by node of its tree.
type storedSchemas struct {
	schemaTree
	// common is that of all versions, noNode if each has its own.
	common uint32
	// byVersion has those that were asked for.
	byVersion map[string]uint32
}

// read reads a definition's text, and the schemas of a version or, if that is
// "", of all. It reports whether they can be published from it.
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

// spec reads a definition's spec. In v1beta1 unknown fields are preserved unless
// they are said not to be, and a schema may belong to all versions.
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

// version reads a version of the spec. Its name stands first.
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

// validation reads what holds a schema.
func (s *storedSchemas) validation() uint32 {
	var found uint32
	for ok := s.BeginObject(); ok; ok = s.NextField() {
		s.RefuseIf(string(s.Name()) != "openAPIV3Schema" || found != noNode)
		found = s.schema(0)
	}
	s.RefuseIf(found == noNode)
	return found
}

// of is the schema of a version.
func (s *storedSchemas) of(version string) (uint32, bool) {
	n := s.common
	if n == noNode {
		n = s.byVersion[version]
	}
	return n, n != noNode
}

// schema reads one and returns its node.
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
		t.nodes[n].at[f] = at
		t.nodes[n].set |= 1 << f
	}
	return n
}

// content reads the value of a field of node n. What is empty or false Kubernetes
// leaves out, so it is odd.
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
		t.RefuseIf(t.items(func() { t.Quoted() }) == 0)
	case keywordRules:
		t.RefuseIf(t.items(t.rule) == 0)
	}
	return span{from, uint32(t.Offset())}
}

func (t *schemaTree) some(s span) span {
	t.RefuseIf(s.from == s.to)
	return s
}

// items reads a list whose items read reads, and returns how many there are.
func (t *schemaTree) items(read func()) (count int) {
	for ok := t.BeginList(); ok; ok = t.NextItem() {
		read()
		count++
	}
	return count
}

// properties are in order of their names.
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

// name reads the name of a field and returns where it stands.
func (t *schemaTree) name() span {
	name := t.Name()
	to := max(t.Offset()-len(`":`), len(name))
	return span{uint32(to - len(name)), uint32(to)}
}

// list is schemas one behind the other.
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

func (t *schemaTree) link(first, last, made uint32) (uint32, uint32) {
	if first == 0 {
		return made, made
	}
	t.entries[last].next = made
	return first, made
}

// ruleFields are those of a validation rule in the order in which Kubernetes
// writes them.
var ruleFields = [...]string{"rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf"}

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
