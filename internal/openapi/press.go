package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// nativeText is a property that Kubernetes adds, as JSON.
type nativeText struct{ name, schema string }

// nativeTexts are in order of their names.
func nativeTexts(all map[string]spec.Schema) ([]nativeText, error) {
	var texts []nativeText
	for _, name := range sortedKeys(all) {
		schema := all[name]
		encoded, err := appendSchema(nil, &schema)
		if err != nil {
			return nil, err
		}
		texts = append(texts, nativeText{name, string(encoded)})
	}
	return texts, nil
}

// identity is what the schema of a kind says of it besides: the JSON of
// extensions.
type identity struct{ kind, fields string }

func (n names) identity(selectable bool) identity {
	kind, err := json.Marshal([]any{map[string]any{"group": n.group, "version": n.version, "kind": n.kind}})
	if err != nil {
		panic(err) // strings can be marshalled
	}
	id := identity{kind: string(kind)}
	if selectable {
		id.fields = n.fields
	}
	return id
}

// press writes schemas as they are published: what Unfold, ToStructuralOpenAPIV2,
// ToKubeOpenAPI, natives.extend and PruneDefaultsSchema make of those of a
// tree, written straight from the text. The tree is structural.
type press struct {
	*tree
	root, embedded []nativeText
	v2             bool
	out            objectWriter
}

// kind writes a kind's schema behind dst.
func (p *press) kind(dst []byte, n uint32, id identity) []byte {
	p.out = objectWriter{dst: dst}
	if p.v2 && p.nodes[n].set.has(fieldPreserve) {
		p.out.dst = append(p.out.dst, `{"type":"object"`...)
		p.out.some = true
		p.extension(endpoints.RouteMetaGVK, id.kind)
		p.extension(endpoints.RouteMetaSelectableFields, id.fields)
		p.out.dst = append(p.out.dst, '}')
		return p.out.dst
	}
	p.schema(n, p.root, &id)
	return p.out.dst
}

func (p *press) extension(name, value string) {
	if value != "" {
		p.out.field(name)
		p.out.dst = append(p.out.dst, value...)
	}
}

// schema writes a node with properties of Kubernetes' own besides. Only the root
// has an identity.
func (p *press) schema(n uint32, natives []nativeText, id *identity) {
	s := &p.nodes[n]
	set := p.published(s)
	if set.has(fieldEmbedded) && !(p.v2 && set.has(fieldPreserve)) {
		natives = p.embedded
	}
	outer := p.out.some
	p.out.dst, p.out.some = append(p.out.dst, '{'), false
	for f := fieldDescription; f < fieldRequired; f++ {
		if set.has(f) {
			p.plain(s, f)
		}
	}
	p.required(s, set, id == nil && natives != nil)
	if set.has(fieldItems) {
		p.out.field(fieldNames[fieldItems])
		p.schema(s.at[fieldItems].from, nil, nil)
	}
	p.properties(s, set, natives)
	p.additional(s, set)
	p.junctors(s, set)
	for f := fieldEmbedded; f < fieldCount; f++ { // in order of their names
		switch {
		case f == fieldIntOrString && id != nil:
			p.extension(endpoints.RouteMetaGVK, id.kind)
		case f == fieldRules && id != nil:
			p.extension(endpoints.RouteMetaSelectableFields, id.fields)
		}
		if set.has(f) {
			p.plain(s, f)
		}
	}
	p.out.dst, p.out.some = append(p.out.dst, '}'), outer
}

// published is the fields of a node that are. In v2 a value that may be null has
// no type, and kubectl takes no properties of what keeps unknown fields.
func (p *press) published(s *node) fieldSet {
	set := s.set
	if !p.v2 {
		return set
	}
	set &^= junctors | setOf(fieldDefault, fieldNullable)
	if s.set.has(fieldNullable) {
		set &^= setOf(fieldType, fieldItems, fieldProperties)
	}
	if set.has(fieldPreserve) {
		set &^= setOf(fieldItems, fieldProperties)
	}
	switch kind := string(p.text(s.at[fieldType])); {
	case kind == "array" && !set.has(fieldItems), kind == "object" && set.has(fieldPreserve):
		set &^= setOf(fieldType)
	}
	return set
}

// plain writes a field whose value is that of the text.
func (p *press) plain(s *node, f field) {
	value := p.text(s.at[f])
	switch f {
	case fieldDescription, fieldType, fieldFormat, fieldTitle, fieldPattern, fieldListType, fieldMapType:
		p.out.field(fieldNames[f])
		p.out.dst = appendQuoted(p.out.dst, value)
		return
	case fieldExample: // Kubernetes leaves out those that are empty
		if string(value) == `""` || string(value) == "{}" || string(value) == "[]" {
			return
		}
	}
	p.out.field(fieldNames[f])
	p.out.dst = appendValue(p.out.dst, value)
}

// required writes the names of required properties. Those that may be null are
// not required in v2.
func (p *press) required(s *node, set fieldSet, embedded bool) {
	schema, ok := s.additional()
	none := p.v2 && ok && p.nodes[schema].set.has(fieldNullable)
	filtered := p.v2 && set.has(fieldProperties) && s.nullable
	if !set.has(fieldRequired) || none {
		if embedded {
			p.out.field(fieldNames[fieldRequired])
			p.out.dst = append(p.out.dst, `["kind","apiVersion"]`...)
		}
		return
	}
	value := p.text(s.at[fieldRequired])
	if !filtered && !embedded {
		p.out.field(fieldNames[fieldRequired])
		p.out.dst = appendValue(p.out.dst, value)
		return
	}
	var names [][]byte
	all := tree{src: value}
	all.array(func() {
		name := all.text(all.string())
		if plain, _ := unquote(name); filtered {
			if of := p.property(s, plain); of != nil && of.set.has(fieldNullable) {
				return
			}
		}
		names = append(names, name)
	})
	if embedded {
		for _, name := range nativeNames[:2] {
			if !slices.ContainsFunc(names, func(n []byte) bool { return string(n) == name }) {
				names = append(names, []byte(name))
			}
		}
	}
	if len(names) == 0 {
		return
	}
	p.out.field(fieldNames[fieldRequired])
	for i, name := range names {
		p.out.dst = append(p.out.dst, "[,"[min(i, 1)])
		p.out.dst = appendQuoted(p.out.dst, name)
	}
	p.out.dst = append(p.out.dst, ']')
}

// properties writes a node's and Kubernetes' own, which stand in the place of
// those of the same name.
func (p *press) properties(s *node, set fieldSet, natives []nativeText) {
	var e uint32
	if set.has(fieldProperties) {
		e = s.at[fieldProperties].from
	}
	if e == 0 && len(natives) == 0 {
		return
	}
	p.out.field(fieldNames[fieldProperties])
	outer := p.out.some
	p.out.dst, p.out.some = append(p.out.dst, '{'), false
	for e != 0 || len(natives) > 0 {
		order := -1
		if e == 0 || len(natives) > 0 {
			order = 1
		}
		if e != 0 && len(natives) > 0 {
			order = strings.Compare(string(p.text(p.entries[e].name)), natives[0].name)
		}
		if order < 0 {
			p.out.field(string(p.text(p.entries[e].name)))
			p.schema(p.entries[e].node, nil, nil)
		} else {
			p.out.field(natives[0].name)
			p.out.dst = append(p.out.dst, natives[0].schema...)
			natives = natives[1:]
		}
		if order <= 0 {
			e = p.entries[e].next
		}
	}
	p.out.dst, p.out.some = append(p.out.dst, '}'), outer
}

func (p *press) additional(s *node, set fieldSet) {
	if !set.has(fieldAdditional) {
		return
	}
	p.out.field(fieldNames[fieldAdditional])
	if schema, ok := s.additional(); ok {
		p.schema(schema, nil, nil)
		return
	}
	p.out.dst = append(p.out.dst, p.text(s.at[fieldAdditional])...)
}

// intOrString is what an unfolded int-or-string has, unless it says so itself.
const intOrString = `[{"type":"integer"},{"type":"string"}]`

// junctors writes what only v3 documents have.
func (p *press) junctors(s *node, set fieldSet) {
	unfold := !p.v2 && set.has(fieldIntOrString) && !p.intOrString(s, fieldAnyOf) && !p.intOrStringFirst(s)
	if unfold && !set.has(fieldAnyOf) {
		p.out.field(fieldNames[fieldAnyOf])
		p.out.dst = append(p.out.dst, intOrString...)
		unfold = false
	}
	if set&junctors == 0 {
		return
	}
	for f := fieldAllOf; f <= fieldAnyOf; f++ {
		if !set.has(f) && !(unfold && f == fieldAllOf) {
			continue
		}
		p.out.field(fieldNames[f])
		outer := p.out.some
		p.out.dst, p.out.some = append(p.out.dst, '['), false
		if unfold && f == fieldAllOf {
			p.out.entries(`{"anyOf":` + intOrString + `}`)
		}
		for e := s.at[f].from; e != 0; e = p.entries[e].next {
			p.out.comma()
			p.schema(p.entries[e].node, nil, nil)
		}
		p.out.dst, p.out.some = append(p.out.dst, ']'), outer
	}
	if set.has(fieldNot) {
		p.out.field(fieldNames[fieldNot])
		p.schema(s.at[fieldNot].from, nil, nil)
	}
}

// appendValue appends a JSON value as appendString would write its strings.
func appendValue(dst, value []byte) []byte {
	for {
		i := bytes.IndexByte(value, '\\')
		if i < 0 {
			return append(dst, value...)
		}
		dst, value = append(dst, value[:i]...), value[i:]
		dst, value = appendEscape(dst, value)
	}
}

// appendQuoted appends a JSON string of what stands between quotes.
func appendQuoted(dst, inside []byte) []byte {
	return append(appendValue(append(dst, '"'), inside), '"')
}

// appendEscape appends the character that an escape at the beginning of value
// means, escaped only if it must be, and returns what is behind it. Kubernetes
// escapes more: "<" for one.
func appendEscape(dst, value []byte) (appended, rest []byte) {
	c := value[1]
	if c != 'u' {
		if c == '/' {
			return append(dst, c), value[2:]
		}
		return append(dst, '\\', c), value[2:]
	}
	r, _ := escaped(value)
	switch {
	case r == '"' || r == '\\' || r < ' ':
		return appendEscaped(dst, byte(r)), value[6:]
	default:
		return utf8.AppendRune(dst, r), value[6:]
	}
}

// escaped reads the escape \uXXXX.
func escaped(value []byte) (rune, bool) {
	var r rune
	if len(value) < 6 {
		return 0, false
	}
	for _, c := range value[2:6] {
		digit := bytes.IndexByte([]byte("0123456789abcdef"), c|0x20)
		if digit < 0 {
			return 0, false
		}
		r = r<<4 | rune(digit)
	}
	return r, true
}

// unquote is what a string means of which inside stands between its quotes.
func unquote(inside []byte) (string, bool) {
	if bytes.IndexByte(inside, '\\') < 0 {
		return string(inside), true
	}
	var plain string
	if err := json.Unmarshal(fmt.Appendf(nil, `"%s"`, inside), &plain); err != nil {
		return "", false
	}
	return plain, true
}
