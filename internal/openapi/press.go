package openapi

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/millrace/millrace/internal/storedjson"
)

// nativeText is a property that Kubernetes adds, as JSON.
type nativeText struct{ name, schema string }

// nativeTexts are in order of their names.
func nativeTexts(all map[string]spec.Schema) ([]nativeText, error) {
	var texts []nativeText
	for _, name := range slices.Sorted(maps.Keys(all)) {
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
	out            storedjson.Writer
}

// kind writes a kind's schema behind dst.
func (p *press) kind(dst []byte, n uint32, id identity) []byte {
	p.out = storedjson.Writer{Text: dst, Escaping: storedjson.EscapeMinimal}
	if p.v2 && p.nodes[n].set.has(fieldPreserve) {
		p.out.Raw(`{"type":"object"`)
		p.extension(endpoints.RouteMetaGVK, id.kind)
		p.extension(endpoints.RouteMetaSelectableFields, id.fields)
		p.out.End('}')
		return p.out.Text
	}
	p.schema(n, p.root, &id)
	return p.out.Text
}

func (p *press) extension(name, value string) {
	if value != "" {
		p.out.PlainName(name)
		p.out.Raw(value)
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
	p.out.Begin('{')
	for f := fieldDescription; f < fieldRequired; f++ {
		if set.has(f) {
			p.plain(s, f)
		}
	}
	p.required(s, set, id == nil && natives != nil)
	if set.has(fieldItems) {
		p.out.PlainName(fieldNames[fieldItems])
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
	p.out.End('}')
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
		p.out.PlainName(fieldNames[f])
		p.out.StoredString(value)
		return
	case fieldExample: // Kubernetes leaves out those that are empty
		if string(value) == `""` || string(value) == "{}" || string(value) == "[]" {
			return
		}
	}
	p.out.PlainName(fieldNames[f])
	p.out.Stored(value)
}

// required writes the names of required properties. Those that may be null are
// not required in v2.
func (p *press) required(s *node, set fieldSet, embedded bool) {
	schema, ok := s.additional()
	none := p.v2 && ok && p.nodes[schema].set.has(fieldNullable)
	filtered := p.v2 && set.has(fieldProperties) && s.nullable
	if !set.has(fieldRequired) || none {
		if embedded {
			p.out.PlainName(fieldNames[fieldRequired])
			p.out.Raw(`["kind","apiVersion"]`)
		}
		return
	}
	value := p.text(s.at[fieldRequired])
	if !filtered && !embedded {
		p.out.PlainName(fieldNames[fieldRequired])
		p.out.Stored(value)
		return
	}
	var names [][]byte
	list := storedjson.NewLexer(value)
	for ok := list.BeginList(); ok; ok = list.NextItem() {
		name := list.Quoted()
		if filtered {
			plain, _ := storedjson.Unquote(name)
			if of := p.property(s, plain); of != nil && of.set.has(fieldNullable) {
				continue
			}
		}
		names = append(names, name)
	}
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
	p.out.PlainName(fieldNames[fieldRequired])
	p.out.Begin('[')
	for _, name := range names {
		p.out.Comma()
		p.out.StoredString(name)
	}
	p.out.End(']')
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
	p.out.PlainName(fieldNames[fieldProperties])
	p.out.Begin('{')
	for e != 0 || len(natives) > 0 {
		order := -1
		if e == 0 || len(natives) > 0 {
			order = 1
		}
		if e != 0 && len(natives) > 0 {
			order = strings.Compare(string(p.text(p.entries[e].name)), natives[0].name)
		}
		if order < 0 {
			p.out.PlainName(string(p.text(p.entries[e].name)))
			p.schema(p.entries[e].node, nil, nil)
		} else {
			p.out.PlainName(natives[0].name)
			p.out.Raw(natives[0].schema)
			natives = natives[1:]
		}
		if order <= 0 {
			e = p.entries[e].next
		}
	}
	p.out.End('}')
}

func (p *press) additional(s *node, set fieldSet) {
	if !set.has(fieldAdditional) {
		return
	}
	p.out.PlainName(fieldNames[fieldAdditional])
	if schema, ok := s.additional(); ok {
		p.schema(schema, nil, nil)
		return
	}
	p.out.Text = append(p.out.Text, p.text(s.at[fieldAdditional])...)
}

// intOrString is what an unfolded int-or-string has, unless it says so itself.
const intOrString = `[{"type":"integer"},{"type":"string"}]`

// junctors writes what only v3 documents have.
func (p *press) junctors(s *node, set fieldSet) {
	unfold := !p.v2 && set.has(fieldIntOrString) && !p.intOrString(s, fieldAnyOf) && !p.intOrStringFirst(s)
	if unfold && !set.has(fieldAnyOf) {
		p.out.PlainName(fieldNames[fieldAnyOf])
		p.out.Raw(intOrString)
		unfold = false
	}
	if set&junctors == 0 {
		return
	}
	for f := fieldAllOf; f <= fieldAnyOf; f++ {
		if !set.has(f) && !(unfold && f == fieldAllOf) {
			continue
		}
		p.out.PlainName(fieldNames[f])
		p.out.Begin('[')
		if unfold && f == fieldAllOf {
			p.out.Entries(`{"anyOf":` + intOrString + `}`)
		}
		for e := s.at[f].from; e != 0; e = p.entries[e].next {
			p.out.Comma()
			p.schema(p.entries[e].node, nil, nil)
		}
		p.out.End(']')
	}
	if set.has(fieldNot) {
		p.out.PlainName(fieldNames[fieldNot])
		p.schema(s.at[fieldNot].from, nil, nil)
	}
}
