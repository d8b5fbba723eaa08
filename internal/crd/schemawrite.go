package crd

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
)

// schemaWriter writes schemas as Kubernetes stores them: as encoding/json writes the
// types of v1beta1, whose order of fields this is. It goes on with nothing at what it
// does not know, and says so.
type schemaWriter struct {
	text    []byte
	unusual bool
}

// textOf is a schema as it is stored. It returns false if that is to be encoded
// otherwise.
func textOf(s *apiextensions.JSONSchemaProps) ([]byte, bool) {
	w := schemaWriter{}
	w.schema(s)
	return w.text, !w.unusual
}

func (w *schemaWriter) schema(s *apiextensions.JSONSchemaProps) {
	if s.ID != "" || s.Schema != "" || s.Ref != nil || s.PatternProperties != nil || s.Dependencies != nil || s.AdditionalItems != nil ||
		s.Definitions != nil || s.ExternalDocs != nil {
		w.unusual = true
	}
	w.text = append(w.text, '{')
	w.string("description", s.Description)
	w.string("type", s.Type)
	w.string("format", s.Format)
	w.string("title", s.Title)
	if s.Default != nil && *s.Default != nil {
		w.any("default", *s.Default)
	}
	w.limits(s)
	w.parts(s)
	if s.Example != nil && *s.Example != nil {
		w.any("example", *s.Example)
	}
	w.flag("nullable", s.Nullable)
	w.extensions(s)
	w.text = append(w.text, '}')
}

// limits writes the fields that bound values, and those that stand between them.
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

// parts writes the schemas of which one is made.
func (w *schemaWriter) parts(s *apiextensions.JSONSchemaProps) {
	if s.Items != nil {
		w.unusual = w.unusual || s.Items.Schema == nil || len(s.Items.JSONSchemas) > 0
		w.sub("items", s.Items.Schema)
	}
	w.list("allOf", s.AllOf)
	w.list("oneOf", s.OneOf)
	w.list("anyOf", s.AnyOf)
	w.sub("not", s.Not)
	if len(s.Properties) > 0 {
		w.name("properties")
		w.text = append(w.text, '{')
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			w.name(name)
			p := s.Properties[name]
			w.schema(&p)
		}
		w.text = append(w.text, '}')
	}
	switch p := s.AdditionalProperties; {
	case p == nil:
	case p.Schema != nil:
		w.sub("additionalProperties", p.Schema)
	default:
		w.name("additionalProperties")
		w.text = strconv.AppendBool(w.text, p.Allows)
	}
}

// extensions writes the fields of Kubernetes' own.
func (w *schemaWriter) extensions(s *apiextensions.JSONSchemaProps) {
	if s.XPreserveUnknownFields != nil {
		w.name("x-kubernetes-preserve-unknown-fields")
		w.text = strconv.AppendBool(w.text, *s.XPreserveUnknownFields)
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
		w.unusual = w.unusual || err != nil
	}
	w.any("x-kubernetes-validations", rules)
}

// name begins a field.
func (w *schemaWriter) name(name string) {
	if w.text[len(w.text)-1] != '{' {
		w.text = append(w.text, ',')
	}
	w.quote(name)
	w.text = append(w.text, ':')
}

// quote writes a string.
func (w *schemaWriter) quote(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			w.value(s)
			return
		}
	}
	w.text = append(append(append(w.text, '"'), s...), '"')
}

func (w *schemaWriter) value(v any) {
	text, err := json.Marshal(v)
	w.text, w.unusual = append(w.text, text...), w.unusual || err != nil
}

func (w *schemaWriter) any(name string, v any) {
	w.name(name)
	w.value(v)
}

func (w *schemaWriter) string(name, s string) {
	if s != "" {
		w.name(name)
		w.quote(s)
	}
}

func (w *schemaWriter) pointer(name string, s *string) {
	if s != nil {
		w.name(name)
		w.quote(*s)
	}
}

func (w *schemaWriter) flag(name string, set bool) {
	if set {
		w.name(name)
		w.text = append(w.text, "true"...)
	}
}

func (w *schemaWriter) integer(name string, n *int64) {
	if n != nil {
		w.name(name)
		w.text = strconv.AppendInt(w.text, *n, 10)
	}
}

func (w *schemaWriter) number(name string, n *float64) {
	if n != nil {
		w.any(name, *n)
	}
}

func (w *schemaWriter) sub(name string, s *apiextensions.JSONSchemaProps) {
	if s != nil {
		w.name(name)
		w.schema(s)
	}
}

func (w *schemaWriter) list(name string, list []apiextensions.JSONSchemaProps) {
	if len(list) == 0 {
		return
	}
	w.name(name)
	w.text = append(w.text, '[')
	for i := range list {
		if i > 0 {
			w.text = append(w.text, ',')
		}
		w.schema(&list[i])
	}
	w.text = append(w.text, ']')
}
