package openapi

import (
	"bytes"
	"unicode/utf8"
)

// storedSchemas are the schemas of a stored definition, by node of its tree.
type storedSchemas struct {
	tree
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
	if !utf8.Valid(stored) || surrogates(stored, `\ud`) || surrogates(stored, `\uD`) {
		return false
	}
	var apiVersion string
	seen := 0
	s.object(func(key []byte) {
		switch string(key) {
		case "apiVersion":
			apiVersion = string(s.text(s.string()))
			seen++
		case "spec":
			s.refuse(!s.spec(apiVersion, version))
			seen++
		default:
			s.skip()
		}
	})
	return !s.odd && seen == 2
}

// surrogates reports whether there are characters that begin with an escape, and
// are written as two. Kubernetes writes none.
func surrogates(stored []byte, escape string) bool {
	for at := 0; ; at++ {
		i := bytes.Index(stored[at:], []byte(escape))
		if i < 0 {
			return false
		}
		before := at + i
		for at = before; before > 0 && stored[before-1] == '\\'; before-- {
		}
		if (at-before)%2 == 0 {
			return true
		}
	}
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
	s.object(func(key []byte) {
		switch string(key) {
		case "preserveUnknownFields":
			seen.preserve++
			pruned = s.literal("false")
			s.refuse(!pruned)
		case "validation":
			seen.validation++
			s.common = s.validation()
			s.refuse(apiVersion != old)
		case "versions":
			seen.versions++
			s.array(func() { s.version(version) })
		default:
			s.skip()
		}
	})
	return pruned && seen.preserve <= 1 && seen.validation <= 1 && seen.versions == 1
}

// version reads a version of the spec. Its name stands first.
func (s *storedSchemas) version(wanted string) {
	var name string
	s.object(func(key []byte) {
		switch {
		case string(key) == "name":
			s.refuse(name != "")
			name = string(s.text(s.string()))
		case string(key) == "schema" && (wanted == "" || wanted == name):
			s.refuse(name == "" || s.byVersion[name] != noNode)
			s.byVersion[name] = s.validation()
		default:
			s.skip()
		}
	})
}

// validation reads what holds a schema.
func (s *storedSchemas) validation() uint32 {
	var found uint32
	s.object(func(key []byte) {
		s.refuse(string(key) != "openAPIV3Schema" || found != noNode)
		found = s.schema(0)
	})
	s.refuse(found == noNode)
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
func (t *tree) schema(depth int) uint32 {
	n := uint32(len(t.nodes))
	t.nodes = append(t.nodes, node{})
	t.need('{')
	t.refuse(depth > deepest)
	if t.odd || t.take('}') {
		return n
	}
	for {
		f, known := fieldByName[string(t.text(t.key()))]
		t.refuse(!known || t.nodes[n].set.has(f))
		if t.odd {
			return n
		}
		at := t.content(f, n, depth+1)
		t.nodes[n].at[f] = at
		t.nodes[n].set |= 1 << f
		if !t.more('}') {
			return n
		}
	}
}

// content reads the value of a field of node n. What is empty or false Kubernetes
// leaves out, so it is odd.
func (t *tree) content(f field, n uint32, depth int) span {
	from := uint32(t.at)
	switch f {
	case fieldDescription, fieldType, fieldFormat, fieldTitle, fieldPattern, fieldListType, fieldMapType:
		return t.some(t.string())
	case fieldItems, fieldNot:
		return span{from: t.schema(depth)}
	case fieldProperties:
		return t.properties(n, depth)
	case fieldAllOf, fieldOneOf, fieldAnyOf:
		return t.list(depth)
	case fieldAdditional:
		if t.literal("true") || t.literal("false") {
			break
		}
		schema := t.schema(depth)
		return span{from: schema, to: schema}
	case fieldExclusiveMaximum, fieldExclusiveMinimum, fieldUniqueItems, fieldNullable, fieldEmbedded, fieldIntOrString, fieldPreserve:
		t.refuse(!t.literal("true"))
	case fieldMaximum, fieldMinimum, fieldMultipleOf:
		t.number(false)
	case fieldMaxLength, fieldMinLength, fieldMaxItems, fieldMinItems, fieldMaxProperties, fieldMinProperties:
		t.number(true)
	case fieldDefault, fieldExample:
		t.value(depth)
		t.refuse(bytes.Equal(t.src[from:t.at], []byte("null")))
	case fieldEnum:
		t.refuse(t.array(func() { t.value(depth) }) == 0)
	case fieldRequired, fieldMapKeys:
		t.refuse(t.array(func() { t.string() }) == 0)
	case fieldRules:
		t.refuse(t.array(t.rule) == 0)
	}
	return span{from, uint32(t.at)}
}

func (t *tree) some(s span) span {
	t.refuse(s.from == s.to)
	return s
}

// properties are in order of their names.
func (t *tree) properties(n uint32, depth int) span {
	var first, last uint32
	t.object(func(key []byte) {
		to := uint32(t.at - len(`":`))
		name := span{to - uint32(len(key)), to}
		t.refuse(last != 0 && bytes.Compare(t.text(t.entries[last].name), key) >= 0)
		made := uint32(len(t.entries))
		t.entries = append(t.entries, entry{name: name})
		child := t.schema(depth)
		t.entries[made].node = child
		t.nodes[n].nullable = t.nodes[n].nullable || t.nodes[child].set.has(fieldNullable)
		first, last = t.link(first, last, made)
	})
	t.refuse(first == 0)
	return span{from: first}
}

// list is schemas one behind the other.
func (t *tree) list(depth int) span {
	var first, last uint32
	t.array(func() {
		made := uint32(len(t.entries))
		t.entries = append(t.entries, entry{})
		child := t.schema(depth)
		t.entries[made].node = child
		first, last = t.link(first, last, made)
	})
	t.refuse(first == 0)
	return span{from: first}
}

func (t *tree) link(first, last, made uint32) (uint32, uint32) {
	if first == 0 {
		return made, made
	}
	t.entries[last].next = made
	return first, made
}

// ruleFields are those of a validation rule in the order in which Kubernetes
// writes them.
var ruleFields = [...]string{"rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf"}

func (t *tree) rule() {
	at := 0
	t.object(func(key []byte) {
		for at < len(ruleFields) && ruleFields[at] != string(key) {
			at++
		}
		if at == len(ruleFields) {
			t.odd = true
			return
		}
		if ruleFields[at] == "optionalOldSelf" {
			t.refuse(!t.literal("true") && !t.literal("false"))
		} else {
			t.some(t.string())
		}
		at++
	})
	t.refuse(at == 0)
}
