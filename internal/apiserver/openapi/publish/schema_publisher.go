package publish

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/millrace/millrace/internal/wire/storedjson"
)

// encodedProperty is a property and the JSON of its schema.
type encodedProperty struct{ name, schema string }

// encodeProperties encodes properties in the order of their names.
func encodeProperties(all map[string]spec.Schema) ([]encodedProperty, error) {
	var texts []encodedProperty
	for _, name := range slices.Sorted(maps.Keys(all)) {
		schema := all[name]
		encoded, err := appendSchema(nil, &schema)
		if err != nil {
			return nil, err
		}
		texts = append(texts, encodedProperty{name, string(encoded)})
	}
	return texts, nil
}

// identity is the JSON of the extensions that name the kind of a schema, and its
// selectable fields if it has some.
type identity struct{ kind, fields string }

func (n resourceNames) encodedIdentity(selectable bool) identity {
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

// schemaPublisher writes the published form of a structural schema from its stored text.
//
// Kubernetes publishes a schema by Unfold, ToStructuralOpenAPIV2 (in v2), ToKubeOpenAPI,
// the addition of built-in properties, and PruneDefaultsSchema. Each is a copy of the
// whole schema. Their joint effect on a structural schema is small: some keywords are
// left out, built-in properties are added, strings have fewer escapes. The publisher
// writes the result of all of them in one pass, and must be compared with them at every
// upgrade of Kubernetes.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder.builder.buildKubeNative; compare at each upgrade.
type schemaPublisher struct {
	*schemaTree
	// root and embedded are the built-in properties of the object and of objects in it.
	root, embedded []encodedProperty
	v2             bool
	out            storedjson.Writer
}

// kind appends the schema of a kind, which is node n, to dst.
func (p *schemaPublisher) kind(dst []byte, n uint32, id identity) []byte {
	p.out = storedjson.Writer{Text: dst, Escaping: storedjson.EscapeMinimal}
	if p.v2 && p.nodes[n].set.has(keywordPreserve) {
		p.out.Raw(`{"type":"object"`)
		p.extension(endpoints.RouteMetaGVK, id.kind)
		p.extension(endpoints.RouteMetaSelectableFields, id.fields)
		p.out.End('}')
		return p.out.Text
	}
	p.schema(n, p.root, &id)
	return p.out.Text
}

func (p *schemaPublisher) extension(name, value string) {
	if value != "" {
		p.out.PlainName(name)
		p.out.Raw(value)
	}
}

// schema writes node n with built-in properties. Only the root has an identity.
func (p *schemaPublisher) schema(n uint32, builtin []encodedProperty, id *identity) {
	s := &p.nodes[n]
	set := p.publishedKeywords(s)
	if set.has(keywordEmbedded) && !(p.v2 && set.has(keywordPreserve)) {
		builtin = p.embedded
	}
	p.out.Begin('{')
	for f := keywordDescription; f < keywordRequired; f++ {
		if set.has(f) {
			p.copyKeyword(s, f)
		}
	}
	p.required(s, set, id == nil && builtin != nil)
	if set.has(keywordItems) {
		p.out.PlainName(keywordNames[keywordItems])
		p.schema(s.places[keywordItems].from, nil, nil)
	}
	p.properties(s, set, builtin)
	p.additional(s, set)
	p.applicators(s, set)
	for f := keywordEmbedded; f < keywordCount; f++ { // in order of their names
		switch {
		case f == keywordIntOrString && id != nil:
			p.extension(endpoints.RouteMetaGVK, id.kind)
		case f == keywordRules && id != nil:
			p.extension(endpoints.RouteMetaSelectableFields, id.fields)
		}
		if set.has(f) {
			p.copyKeyword(s, f)
		}
	}
	p.out.End('}')
}

// publishedKeywords returns the keywords of a node that are published. In v2 a nullable
// value has no type, and a value that keeps unknown fields has no properties: kubectl
// would refuse all others.
func (p *schemaPublisher) publishedKeywords(s *schemaNode) keywordSet {
	set := s.set
	if !p.v2 {
		return set
	}
	set &^= applicators | keywords(keywordDefault, keywordNullable)
	if s.set.has(keywordNullable) {
		set &^= keywords(keywordType, keywordItems, keywordProperties)
	}
	if set.has(keywordPreserve) {
		set &^= keywords(keywordItems, keywordProperties)
	}
	switch kind := string(p.text(s.places[keywordType])); {
	case kind == "array" && !set.has(keywordItems), kind == "object" && set.has(keywordPreserve):
		set &^= keywords(keywordType)
	}
	return set
}

// copyKeyword writes a keyword whose value is copied from the stored text.
func (p *schemaPublisher) copyKeyword(s *schemaNode, f keyword) {
	value := p.text(s.places[f])
	switch f {
	case keywordDescription, keywordType, keywordFormat, keywordTitle, keywordPattern, keywordListType, keywordMapType:
		p.out.PlainName(keywordNames[f])
		p.out.StoredString(value)
		return
	case keywordExample: // Kubernetes leaves out empty examples
		if string(value) == `""` || string(value) == "{}" || string(value) == "[]" {
			return
		}
	}
	p.out.PlainName(keywordNames[f])
	p.out.Stored(value)
}

// required writes the names of required properties. In v2 nullable properties are not
// required.
func (p *schemaPublisher) required(s *schemaNode, set keywordSet, embedded bool) {
	schema, ok := s.additional()
	none := p.v2 && ok && p.nodes[schema].set.has(keywordNullable)
	filtered := p.v2 && set.has(keywordProperties) && s.nullable
	if !set.has(keywordRequired) || none {
		if embedded {
			p.out.PlainName(keywordNames[keywordRequired])
			p.out.Raw(`["kind","apiVersion"]`)
		}
		return
	}
	value := p.text(s.places[keywordRequired])
	if !filtered && !embedded {
		p.out.PlainName(keywordNames[keywordRequired])
		p.out.Stored(value)
		return
	}
	var names [][]byte
	list := storedjson.NewLexer(value)
	for ok := list.BeginList(); ok; ok = list.NextItem() {
		name := list.QuotedText()
		if filtered {
			plain, _ := storedjson.Unquote(name)
			if of := p.property(s, plain); of != nil && of.set.has(keywordNullable) {
				continue
			}
		}
		names = append(names, name)
	}
	if embedded {
		for _, name := range builtinNames[:2] {
			if !slices.ContainsFunc(names, func(n []byte) bool { return string(n) == name }) {
				names = append(names, []byte(name))
			}
		}
	}
	if len(names) == 0 {
		return
	}
	p.out.PlainName(keywordNames[keywordRequired])
	p.out.Begin('[')
	for _, name := range names {
		p.out.Comma()
		p.out.StoredString(name)
	}
	p.out.End(']')
}

// properties writes the properties of s and the built-in ones in the order of their
// names. A built-in property replaces one of the same name.
func (p *schemaPublisher) properties(s *schemaNode, set keywordSet, builtin []encodedProperty) {
	var e uint32
	if set.has(keywordProperties) {
		e = s.places[keywordProperties].from
	}
	if e == 0 && len(builtin) == 0 {
		return
	}
	p.out.PlainName(keywordNames[keywordProperties])
	p.out.Begin('{')
	for e != 0 || len(builtin) > 0 {
		order := -1
		if e == 0 || len(builtin) > 0 {
			order = 1
		}
		if e != 0 && len(builtin) > 0 {
			order = strings.Compare(string(p.text(p.entries[e].name)), builtin[0].name)
		}
		if order < 0 {
			p.out.PlainName(string(p.text(p.entries[e].name)))
			p.schema(p.entries[e].node, nil, nil)
		} else {
			p.out.PlainName(builtin[0].name)
			p.out.Raw(builtin[0].schema)
			builtin = builtin[1:]
		}
		if order <= 0 {
			e = p.entries[e].next
		}
	}
	p.out.End('}')
}

func (p *schemaPublisher) additional(s *schemaNode, set keywordSet) {
	if !set.has(keywordAdditional) {
		return
	}
	p.out.PlainName(keywordNames[keywordAdditional])
	if schema, ok := s.additional(); ok {
		p.schema(schema, nil, nil)
		return
	}
	p.out.Text = append(p.out.Text, p.text(s.places[keywordAdditional])...)
}

// intOrString is the anyOf of an int-or-string schema that has none.
const intOrString = `[{"type":"integer"},{"type":"string"}]`

// applicators writes the keywords that only v3 documents have.
func (p *schemaPublisher) applicators(s *schemaNode, set keywordSet) {
	unfold := !p.v2 && set.has(keywordIntOrString) && !p.intOrString(s, keywordAnyOf) && !p.intOrStringFirst(s)
	if unfold && !set.has(keywordAnyOf) {
		p.out.PlainName(keywordNames[keywordAnyOf])
		p.out.Raw(intOrString)
		unfold = false
	}
	if set&applicators == 0 {
		return
	}
	for f := keywordAllOf; f <= keywordAnyOf; f++ {
		if !set.has(f) && !(unfold && f == keywordAllOf) {
			continue
		}
		p.out.PlainName(keywordNames[f])
		p.out.Begin('[')
		if unfold && f == keywordAllOf {
			p.out.Entries(`{"anyOf":` + intOrString + `}`)
		}
		for e := s.places[f].from; e != 0; e = p.entries[e].next {
			p.out.Comma()
			p.schema(p.entries[e].node, nil, nil)
		}
		p.out.End(']')
	}
	if set.has(keywordNot) {
		p.out.PlainName(keywordNames[keywordNot])
		p.schema(s.places[keywordNot].from, nil, nil)
	}
}
