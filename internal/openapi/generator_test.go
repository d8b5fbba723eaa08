package openapi_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

type schemaProps = apiextensionsv1.JSONSchemaProps

// drawing draws schemas that have everything at every nesting. odd of a thousand
// schemas have something that Kubernetes refuses or that is seldom.
type drawing struct {
	*rand.Rand
	odd int
}

// often is true n times of ten.
func (d drawing) often(n int) bool { return d.IntN(10) < n }

func (d drawing) strange() bool { return d.IntN(1000) < d.odd }

// words are characters that JSON or YAML write in more than one way.
var words = []string{"plain", "<less & more>", `"quoted"`, `back\slash`, "line\nbreak", "tab\t", "é", "😀", "\x01", "true", "1e3", "~", "null", "- x", "a: b", "#", `\ud800`}

func (d drawing) text() string {
	var all []string
	for range 1 + d.IntN(4) {
		all = append(all, words[d.IntN(len(words))])
	}
	if d.strange() {
		// Kubernetes' protobuf, which is made through YAML, has no or other ones.
		all = append(all, []string{"\x7f", "\u2028"}[d.IntN(2)])
	}
	return strings.Join(all, " ")
}

// value is JSON.
func (d drawing) value(depth int) string {
	scalars := []string{`"x"`, `"a<b\n"`, `""`, "0", "7", "-3", "0.5", "1e+21", "-1.25e-7", "1.0", "true", "false", "null"}
	last := "z"
	if d.strange() {
		scalars, last = []string{"123456789012345678", "-9007199254740993", "9223372036854775807", "18446744073709551615", "-0"}, "a<"
	}
	switch k := d.IntN(10); {
	case depth > 2 || k < 6:
		return scalars[d.IntN(len(scalars))]
	case k < 7:
		return []string{"{}", "[]"}[d.IntN(2)]
	case k < 8:
		return "[" + d.value(depth+1) + "," + d.value(depth+1) + "]"
	}
	return `{"b":` + d.value(depth+1) + `,"` + last + `":` + d.value(depth+1) + `,"a":` + d.value(depth+1) + "}"
}

func (d drawing) json() *apiextensionsv1.JSON {
	return &apiextensionsv1.JSON{Raw: []byte(d.value(0))}
}

func (d drawing) number() *float64 {
	n := []float64{0, 1, -5, 0.5, 1e21, 1e-9, 65535, 9007199254740993}[d.IntN(8)]
	return &n
}

func (d drawing) count() *int64 {
	n := []int64{0, 1, 63, 1 << 40, 1 << 59}[d.IntN(5)]
	if d.strange() {
		n = 1<<62 + 1
	}
	return &n
}

// validate adds what values may have, below junctors too.
func (d drawing) validate(s *schemaProps) {
	for _, add := range []func(){
		func() { s.Format = []string{"date-time", "int32", "o<dd"}[d.IntN(3)] },
		func() { s.Maximum, s.ExclusiveMaximum = d.number(), d.often(3) },
		func() { s.Minimum, s.ExclusiveMinimum = d.number(), d.often(3) },
		func() { s.MaxLength, s.MinLength = d.count(), d.count() },
		func() { s.Pattern = []string{"^[a-z]+$", `^\d+<(\.\d+)?$`, "a|b"}[d.IntN(3)] },
		func() { s.MaxItems, s.MinItems, s.UniqueItems = d.count(), d.count(), d.often(5) },
		func() { s.MultipleOf = d.number() },
		func() { s.MaxProperties, s.MinProperties = d.count(), d.count() },
		func() { s.Enum = []apiextensionsv1.JSON{*d.json(), *d.json()} },
		func() { s.Required = []string{"name", "spec", "kind", "a<b"}[:1+d.IntN(4)] },
	} {
		if d.IntN(8) == 0 {
			add()
		}
	}
}

// schema is one that Kubernetes publishes, but for what is strange.
func (d drawing) schema(depth int) schemaProps {
	s := schemaProps{Type: []string{"string", "integer", "number", "boolean", "object", "object", "object", "array"}[d.IntN(8)]}
	if depth > 3 && (s.Type == "object" || s.Type == "array") {
		s.Type = "string"
	}
	if d.often(6) {
		s.Description = d.text()
	}
	d.validate(&s)
	switch s.Type {
	case "object":
		d.object(&s, depth)
	case "array":
		item := d.schema(depth + 1)
		s.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}
		s.XListType = []*string{nil, pointer("set"), pointer("map"), pointer("atomic")}[d.IntN(4)]
		if d.often(3) {
			s.XListMapKeys = []string{"name", "k<y"}
		}
	case "string":
		if d.IntN(6) == 0 {
			s.Type, s.XIntOrString = []string{"", "string"}[d.IntN(2)], true
			d.intOrString(&s)
		}
	}
	d.decorate(&s)
	for _, list := range []*[]schemaProps{&s.AllOf, &s.OneOf, &s.AnyOf} {
		for d.IntN(12) == 0 {
			*list = append(*list, d.nested(&s, 0))
		}
	}
	if d.IntN(12) == 0 {
		not := d.nested(&s, 0)
		s.Not = &not
	}
	if d.strange() {
		d.spoil(&s)
	}
	return s
}

func (d drawing) decorate(s *schemaProps) {
	for _, add := range []func(){
		func() { s.Title = d.text() },
		func() { s.Default = d.json() },
		func() { s.Example = d.json() },
		func() { s.Nullable = true },
		func() { s.XMapType = pointer("atomic") },
		func() {
			s.XValidations = apiextensionsv1.ValidationRules{{Rule: "self<1"}, {Rule: "x", Message: d.text(), MessageExpression: "'a'",
				Reason: pointer(apiextensionsv1.FieldValueInvalid), FieldPath: ".a", OptionalOldSelf: pointer(d.often(5))}}
		},
	} {
		if d.IntN(7) == 0 {
			add()
		}
	}
}

// object makes one with properties, additional ones, or neither.
func (d drawing) object(s *schemaProps, depth int) {
	yes := true
	s.Properties = map[string]schemaProps{}
	for range d.IntN(6) {
		name := []string{"name", "spec", "status", "kind", "apiVersion", "metadata", "Zoo", "ä", "$x", "x-y"}[d.IntN(10)]
		s.Properties[name] = d.schema(depth + 1)
	}
	if d.strange() {
		s.Properties["a<b"] = d.schema(depth + 1)
	}
	if d.IntN(6) == 0 {
		s.XPreserveUnknownFields = &yes
	}
	switch d.IntN(8) {
	case 0:
		s.XEmbeddedResource, s.XPreserveUnknownFields = true, []*bool{nil, &yes}[d.IntN(2)]
		s.Properties["kind"], s.Properties["apiVersion"] = schemaProps{Type: "string"}, schemaProps{Type: "string"}
		delete(s.Properties, "metadata")
	case 1, 2:
		more := d.schema(depth + 1)
		s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &more}
	case 3:
		s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: d.often(5)}
	}
}

func (d drawing) intOrString(s *schemaProps) {
	either := []schemaProps{{Type: "integer"}, {Type: "string"}}
	switch d.IntN(4) {
	case 0:
		s.AnyOf = either
	case 1:
		s.AllOf = []schemaProps{{AnyOf: either}, {Pattern: "^a"}}
	case 2:
		s.AnyOf = []schemaProps{{Pattern: "^a"}}
	}
}

// nested is a schema below a junctor of s.
func (d drawing) nested(s *schemaProps, depth int) schemaProps {
	var n schemaProps
	d.validate(&n)
	for name, property := range s.Properties {
		if depth < 2 && name != "metadata" && d.often(3) {
			n.Properties = map[string]schemaProps{name: d.nested(&property, depth+1)}
		}
	}
	if s.Items != nil && d.often(5) {
		item := d.nested(s.Items.Schema, depth+1)
		n.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}
	}
	if depth < 2 && d.IntN(5) == 0 {
		n.AllOf = []schemaProps{d.nested(s, depth+1)}
	}
	if d.strange() {
		d.spoil(&n)
	}
	return n
}

// spoil makes a schema one that is not structural, or seldom.
func (d drawing) spoil(s *schemaProps) {
	no := false
	[]func(){
		func() { s.Type = "" },
		func() { s.Type = "null" },
		func() { s.Pattern = "a(" },
		func() { s.Items = nil; s.Type = "array" },
		func() {
			s.ExternalDocs = &apiextensionsv1.ExternalDocumentation{URL: "http://x", Description: d.text()}
		},
		func() { s.ID = "x" },
		func() { s.Ref = pointer("#/definitions/x") },
		func() { s.XPreserveUnknownFields = &no },
		func() { s.XIntOrString, s.XEmbeddedResource = true, true },
		func() { s.XEmbeddedResource = true },
		func() { s.AllOf = []schemaProps{{Properties: map[string]schemaProps{"nowhere": {}}}} },
		func() { s.Not = &schemaProps{Description: "no"} },
		func() { s.OneOf = []schemaProps{{AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{}}} },
		func() { s.AnyOf = []schemaProps{{XValidations: apiextensionsv1.ValidationRules{{Rule: "a"}}}} },
		func() { s.Not = &schemaProps{Properties: map[string]schemaProps{"metadata": {}}} },
		func() { s.PatternProperties = map[string]schemaProps{"a": {}} },
		func() { s.XListType = pointer("") },
	}[d.IntN(17)]()
}

func pointer[T any](v T) *T { return &v }

// definition is one with these schemas, and a form in which it is stored.
func (d drawing) definition(i int) *definition {
	group, kind := fmt.Sprintf("group%d.example.com", i%7), fmt.Sprintf("Kind%d", i)
	if special := []string{"True", "No", "Null", "Y", "On"}; i < len(special) {
		group, kind = []string{group, "0.5"}[i%2], special[i] // YAML has them in quotes
	}
	def := established(newBuiltin(group, fmt.Sprintf("kind%ds", i), kind))
	if d.often(3) {
		def.Annotations = map[string]string{storedAs: "v1", "text": d.text()}
	}
	def.Spec.Scope = []apiextensionsv1.ResourceScope{apiextensionsv1.ClusterScoped, apiextensionsv1.NamespaceScoped}[d.IntN(2)]
	first := def.Spec.Versions[0]
	for k := range d.IntN(3) {
		another := first
		another.Name, another.Storage, another.Served = fmt.Sprintf("v%d", k+2), false, d.often(8)
		def.Spec.Versions = append(def.Spec.Versions, another)
	}
	root := d.root()
	for k := range def.Spec.Versions {
		v := &def.Spec.Versions[k]
		if d.often(4) {
			root = d.root()
		}
		own := root
		v.Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &own}
		if d.often(5) {
			v.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
		}
		if d.often(2) {
			v.SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.a"}, {JSONPath: ".spec.b"}}
		}
	}
	return def
}

func (d drawing) root() schemaProps {
	s := d.schema(0)
	s.Type, s.AdditionalProperties, s.Items = "object", nil, nil
	s.XIntOrString, s.XEmbeddedResource, s.Not = false, false, nil
	s.AllOf, s.OneOf, s.AnyOf = nil, nil, nil
	if s.Properties == nil {
		s.Properties = map[string]schemaProps{"spec": d.schema(1)}
	}
	for _, name := range []string{"kind", "apiVersion"} {
		if _, ok := s.Properties[name]; ok {
			s.Properties[name] = schemaProps{Type: "string", Description: d.text()}
		}
	}
	if _, ok := s.Properties["metadata"]; ok {
		s.Properties["metadata"] = schemaProps{Type: "object"}
	}
	if d.often(3) {
		s.OneOf = []schemaProps{d.nested(&s, 0)}
	}
	return s
}
