package definitioncodec

import (
	"maps"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"

	"github.com/millrace/millrace/internal/wire/storedjson"
)

// schemaWriter writes schemas as Kubernetes stores them: as encoding/json writes the
// types of v1beta1. The order of the calls is the order of the fields in the types of
// v1beta1.
type schemaWriter struct {
	storedjson.Writer
	// unknown is set by a schema with a field that the writer does not know. The writer
	// leaves such a field out and goes on.
	unknown bool
}

// writeSchema returns a schema as Kubernetes stores it. It returns false if Kubernetes has
// to encode it.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1.JSONSchemaProps; compare at each upgrade.
func writeSchema(s *apiextensions.JSONSchemaProps) ([]byte, bool) {
	w := schemaWriter{}
	w.schema(s)
	return w.Text, !w.unknown && w.Err == nil
}

func (w *schemaWriter) schema(s *apiextensions.JSONSchemaProps) {
	if s.ID != "" || s.Schema != "" || s.Ref != nil || s.PatternProperties != nil || s.Dependencies != nil || s.AdditionalItems != nil ||
		s.Definitions != nil || s.ExternalDocs != nil {
		w.unknown = true
	}
	w.Begin('{')
	w.string("description", s.Description)
	w.string("type", s.Type)
	w.string("format", s.Format)
	w.string("title", s.Title)
	if s.Default != nil && *s.Default != nil {
		w.any("default", *s.Default)
	}
	w.limits(s)
	w.subschemas(s)
	if s.Example != nil && *s.Example != nil {
		w.any("example", *s.Example)
	}
	w.flag("nullable", s.Nullable)
	w.extensions(s)
	w.End('}')
}

// limits writes the fields that limit values, and the fields whose place is among them.
func (w *schemaWriter) limits(s *apiextensions.JSONSchemaProps) {
	w.number("maximum", s.Maximum)
	w.flag("exclusiveMaximum", s.ExclusiveMaximum)
	w.number("minimum", s.Minimum)
	w.flag("exclusiveMinimum", s.ExclusiveMinimum)
	w.integer("maxLength", s.MaxLength)
	w.integer("minLength", s.MinLength)
	w.string("pattern", s.Pattern)
	w.integer("maxItems", s.MaxItems)
	w.integer("minItems", s.MinItems)
	w.flag("uniqueItems", s.UniqueItems)
	w.number("multipleOf", s.MultipleOf)
	if len(s.Enum) > 0 {
		w.any("enum", s.Enum)
	}
	w.integer("maxProperties", s.MaxProperties)
	w.integer("minProperties", s.MinProperties)
	if len(s.Required) > 0 {
		w.any("required", s.Required)
	}
}

// subschemas writes the schemas inside a schema.
func (w *schemaWriter) subschemas(s *apiextensions.JSONSchemaProps) {
	if s.Items != nil {
		w.unknown = w.unknown || s.Items.Schema == nil || len(s.Items.JSONSchemas) > 0
		w.sub("items", s.Items.Schema)
	}
	w.list("allOf", s.AllOf)
	w.list("oneOf", s.OneOf)
	w.list("anyOf", s.AnyOf)
	w.sub("not", s.Not)
	if len(s.Properties) > 0 {
		w.PlainName("properties")
		w.Begin('{')
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			w.Name(name)
			p := s.Properties[name]
			w.schema(&p)
		}
		w.End('}')
	}
	switch p := s.AdditionalProperties; {
	case p == nil:
	case p.Schema != nil:
		w.sub("additionalProperties", p.Schema)
	default:
		w.PlainName("additionalProperties")
		w.Bool(p.Allows)
	}
}

// extensions writes the x-kubernetes fields.
func (w *schemaWriter) extensions(s *apiextensions.JSONSchemaProps) {
	if s.XPreserveUnknownFields != nil {
		w.PlainName("x-kubernetes-preserve-unknown-fields")
		w.Bool(*s.XPreserveUnknownFields)
	}
	w.flag("x-kubernetes-embedded-resource", s.XEmbeddedResource)
	w.flag("x-kubernetes-int-or-string", s.XIntOrString)
	if len(s.XListMapKeys) > 0 {
		w.any("x-kubernetes-list-map-keys", s.XListMapKeys)
	}
	w.pointer("x-kubernetes-list-type", s.XListType)
	w.pointer("x-kubernetes-map-type", s.XMapType)
	if len(s.XValidations) == 0 {
		return
	}
	rules := make(v1beta1.ValidationRules, len(s.XValidations))
	for i := range rules {
		err := v1beta1.Convert_apiextensions_ValidationRule_To_v1beta1_ValidationRule(&s.XValidations[i], &rules[i], nil)
		w.unknown = w.unknown || err != nil
	}
	w.any("x-kubernetes-validations", rules)
}

func (w *schemaWriter) any(name string, v any) {
	w.PlainName(name)
	w.Marshal(v)
}

func (w *schemaWriter) string(name, s string) {
	if s != "" {
		w.PlainName(name)
		w.String(s)
	}
}

func (w *schemaWriter) pointer(name string, s *string) {
	if s != nil {
		w.PlainName(name)
		w.String(*s)
	}
}

func (w *schemaWriter) flag(name string, set bool) {
	if set {
		w.PlainName(name)
		w.Bool(true)
	}
}

func (w *schemaWriter) integer(name string, n *int64) {
	if n != nil {
		w.PlainName(name)
		w.Int(*n)
	}
}

func (w *schemaWriter) number(name string, n *float64) {
	if n != nil {
		w.any(name, *n)
	}
}

func (w *schemaWriter) sub(name string, s *apiextensions.JSONSchemaProps) {
	if s != nil {
		w.PlainName(name)
		w.schema(s)
	}
}

func (w *schemaWriter) list(name string, list []apiextensions.JSONSchemaProps) {
	if len(list) == 0 {
		return
	}
	w.PlainName(name)
	w.Begin('[')
	for i := range list {
		w.Comma()
		w.schema(&list[i])
	}
	w.End(']')
}
