package openapi_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

type schemaProps = apiextensionsv1.JSONSchemaProps

// generator makes random definitions whose schemas have everything at every level.
type generator struct {
	*rand.Rand
	// strangePerMille is how many of 1000 schemas have something that is rare or that
	// Kubernetes refuses.
	strangePerMille int
}

// often is true in n of ten calls.
func (g generator) often(n int) bool { return g.IntN(10) < n }

func (g generator) strange() bool { return g.IntN(1000) < g.strangePerMille }

// words have characters that JSON or YAML may write in more than one way.
var words = []string{"plain", "<less & more>", `"quoted"`, `back\slash`, "line\nbreak", "tab\t", "é", "😀", "\x01", "true", "1e3", "~", "null", "- x", "a: b", "#", `\ud800`}

func (g generator) text() string {
	var all []string
	for range 1 + g.IntN(4) {
		all = append(all, words[g.IntN(len(words))])
	}
	if g.strange() {
		// Kubernetes makes protobuf by way of YAML, which loses or changes these.
		all = append(all, []string{"\x7f", "\u2028"}[g.IntN(2)])
	}
	return strings.Join(all, " ")
}

// value returns JSON.
func (g generator) value(depth int) string {
	scalars := []string{`"x"`, `"a<b\n"`, `""`, "0", "7", "-3", "0.5", "1e+21", "-1.25e-7", "1.0", "true", "false", "null"}
	last := "z"
	if g.strange() {
		scalars, last = []string{"123456789012345678", "-9007199254740993", "9223372036854775807", "18446744073709551615", "-0"}, "a<"
	}
	switch k := g.IntN(10); {
	case depth > 2 || k < 6:
		return scalars[g.IntN(len(scalars))]
	case k < 7:
		return []string{"{}", "[]"}[g.IntN(2)]
	case k < 8:
		return "[" + g.value(depth+1) + "," + g.value(depth+1) + "]"
	}
	return `{"b":` + g.value(depth+1) + `,"` + last + `":` + g.value(depth+1) + `,"a":` + g.value(depth+1) + "}"
}

func (g generator) json() *apiextensionsv1.JSON {
	return &apiextensionsv1.JSON{Raw: []byte(g.value(0))}
}

func (g generator) number() *float64 {
	n := []float64{0, 1, -5, 0.5, 1e21, 1e-9, 65535, 9007199254740993}[g.IntN(8)]
	return &n
}

func (g generator) count() *int64 {
	n := []int64{0, 1, 63, 1 << 40, 1 << 59}[g.IntN(5)]
	if g.strange() {
		n = 1<<62 + 1
	}
	return &n
}

// validate adds value validations, which schemas below applicators may have too.
func (g generator) validate(s *schemaProps) {
	for _, add := range []func(){
		func() { s.Format = []string{"date-time", "int32", "o<dd"}[g.IntN(3)] },
		func() { s.Maximum, s.ExclusiveMaximum = g.number(), g.often(3) },
		func() { s.Minimum, s.ExclusiveMinimum = g.number(), g.often(3) },
		func() { s.MaxLength, s.MinLength = g.count(), g.count() },
		func() { s.Pattern = []string{"^[a-z]+$", `^\d+<(\.\d+)?$`, "a|b"}[g.IntN(3)] },
		func() { s.MaxItems, s.MinItems, s.UniqueItems = g.count(), g.count(), g.often(5) },
		func() { s.MultipleOf = g.number() },
		func() { s.MaxProperties, s.MinProperties = g.count(), g.count() },
		func() { s.Enum = []apiextensionsv1.JSON{*g.json(), *g.json()} },
		func() { s.Required = []string{"name", "spec", "kind", "a<b"}[:1+g.IntN(4)] },
	} {
		if g.IntN(8) == 0 {
			add()
		}
	}
}

// schema returns a schema that Kubernetes publishes, unless it is strange.
func (g generator) schema(depth int) schemaProps {
	s := schemaProps{Type: []string{"string", "integer", "number", "boolean", "object", "object", "object", "array"}[g.IntN(8)]}
	if depth > 3 && (s.Type == "object" || s.Type == "array") {
		s.Type = "string"
	}
	if g.often(6) {
		s.Description = g.text()
	}
	g.validate(&s)
	switch s.Type {
	case "object":
		g.object(&s, depth)
	case "array":
		item := g.schema(depth + 1)
		s.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}
		s.XListType = []*string{nil, pointer("set"), pointer("map"), pointer("atomic")}[g.IntN(4)]
		if g.often(3) {
			s.XListMapKeys = []string{"name", "k<y"}
		}
	case "string":
		if g.IntN(6) == 0 {
			s.Type, s.XIntOrString = []string{"", "string"}[g.IntN(2)], true
			g.intOrString(&s)
		}
	}
	g.decorate(&s)
	for _, list := range []*[]schemaProps{&s.AllOf, &s.OneOf, &s.AnyOf} {
		for g.IntN(12) == 0 {
			*list = append(*list, g.nested(&s, 0))
		}
	}
	if g.IntN(12) == 0 {
		not := g.nested(&s, 0)
		s.Not = &not
	}
	if g.strange() {
		g.spoil(&s)
	}
	return s
}

func (g generator) decorate(s *schemaProps) {
	for _, add := range []func(){
		func() { s.Title = g.text() },
		func() { s.Default = g.json() },
		func() { s.Example = g.json() },
		func() { s.Nullable = true },
		func() { s.XMapType = pointer("atomic") },
		func() {
			s.XValidations = apiextensionsv1.ValidationRules{{Rule: "self<1"}, {Rule: "x", Message: g.text(), MessageExpression: "'a'",
				Reason: pointer(apiextensionsv1.FieldValueInvalid), FieldPath: ".a", OptionalOldSelf: pointer(g.often(5))}}
		},
	} {
		if g.IntN(7) == 0 {
			add()
		}
	}
}

// object adds properties, additional properties, or neither.
func (g generator) object(s *schemaProps, depth int) {
	yes := true
	s.Properties = map[string]schemaProps{}
	for range g.IntN(6) {
		name := []string{"name", "spec", "status", "kind", "apiVersion", "metadata", "Zoo", "ä", "$x", "x-y"}[g.IntN(10)]
		s.Properties[name] = g.schema(depth + 1)
	}
	if g.strange() {
		s.Properties["a<b"] = g.schema(depth + 1)
	}
	if g.IntN(6) == 0 {
		s.XPreserveUnknownFields = &yes
	}
	switch g.IntN(8) {
	case 0:
		s.XEmbeddedResource, s.XPreserveUnknownFields = true, []*bool{nil, &yes}[g.IntN(2)]
		s.Properties["kind"], s.Properties["apiVersion"] = schemaProps{Type: "string"}, schemaProps{Type: "string"}
		delete(s.Properties, "metadata")
	case 1, 2:
		more := g.schema(depth + 1)
		s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &more}
	case 3:
		s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: g.often(5)}
	}
}

func (g generator) intOrString(s *schemaProps) {
	either := []schemaProps{{Type: "integer"}, {Type: "string"}}
	switch g.IntN(4) {
	case 0:
		s.AnyOf = either
	case 1:
		s.AllOf = []schemaProps{{AnyOf: either}, {Pattern: "^a"}}
	case 2:
		s.AnyOf = []schemaProps{{Pattern: "^a"}}
	}
}

// nested returns a schema that may stand below an applicator of s.
func (g generator) nested(s *schemaProps, depth int) schemaProps {
	var n schemaProps
	g.validate(&n)
	for name, property := range s.Properties {
		if depth < 2 && name != "metadata" && g.often(3) {
			n.Properties = map[string]schemaProps{name: g.nested(&property, depth+1)}
		}
	}
	if s.Items != nil && g.often(5) {
		item := g.nested(s.Items.Schema, depth+1)
		n.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}
	}
	if depth < 2 && g.IntN(5) == 0 {
		n.AllOf = []schemaProps{g.nested(s, depth+1)}
	}
	if g.strange() {
		g.spoil(&n)
	}
	return n
}

// spoil adds something rare, or something that makes the schema not structural.
func (g generator) spoil(s *schemaProps) {
	no := false
	[]func(){
		func() { s.Type = "" },
		func() { s.Type = "null" },
		func() { s.Pattern = "a(" },
		func() { s.Items = nil; s.Type = "array" },
		func() {
			s.ExternalDocs = &apiextensionsv1.ExternalDocumentation{URL: "http://x", Description: g.text()}
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
	}[g.IntN(17)]()
}

func pointer[T any](v T) *T { return &v }

// definition returns a definition with such schemas, and the version that it is stored
// in.
func (g generator) definition(i int) *definition {
	group, kind := fmt.Sprintf("group%d.example.com", i%7), fmt.Sprintf("Kind%d", i)
	if special := []string{"True", "No", "Null", "Y", "On"}; i < len(special) {
		group, kind = []string{group, "0.5"}[i%2], special[i] // words that YAML quotes
	}
	def := established(newBuiltin(group, fmt.Sprintf("kind%ds", i), kind))
	if g.often(3) {
		def.Annotations = map[string]string{storedAs: "v1", "text": g.text()}
	}
	def.Spec.Scope = []apiextensionsv1.ResourceScope{apiextensionsv1.ClusterScoped, apiextensionsv1.NamespaceScoped}[g.IntN(2)]
	first := def.Spec.Versions[0]
	for k := range g.IntN(3) {
		another := first
		another.Name, another.Storage, another.Served = fmt.Sprintf("v%d", k+2), false, g.often(8)
		def.Spec.Versions = append(def.Spec.Versions, another)
	}
	root := g.root()
	for k := range def.Spec.Versions {
		v := &def.Spec.Versions[k]
		if g.often(4) {
			root = g.root()
		}
		own := root
		v.Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &own}
		if g.often(5) {
			v.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
		}
		if g.often(2) {
			v.SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.a"}, {JSONPath: ".spec.b"}}
		}
	}
	return def
}

func (g generator) root() schemaProps {
	s := g.schema(0)
	s.Type, s.AdditionalProperties, s.Items = "object", nil, nil
	s.XIntOrString, s.XEmbeddedResource, s.Not = false, false, nil
	s.AllOf, s.OneOf, s.AnyOf = nil, nil, nil
	if s.Properties == nil {
		s.Properties = map[string]schemaProps{"spec": g.schema(1)}
	}
	for _, name := range []string{"kind", "apiVersion"} {
		if _, ok := s.Properties[name]; ok {
			s.Properties[name] = schemaProps{Type: "string", Description: g.text()}
		}
	}
	if _, ok := s.Properties["metadata"]; ok {
		s.Properties["metadata"] = schemaProps{Type: "object"}
	}
	if g.often(3) {
		s.OneOf = []schemaProps{g.nested(&s, 0)}
	}
	return s
}
