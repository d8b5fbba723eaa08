package definitioncodec

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/millrace/millrace/internal/wire/storedjson"
)

// schemaReader decodes a schema in one pass over its text, to Kubernetes' internal type.
// It refuses text that is not canonical and fields that definitions seldom use: $ref,
// patternProperties, externalDocs and the like.
type schemaReader struct{ storedjson.Lexer }

// readSchema decodes the text of a schema. It returns false if Kubernetes has to decode it.
//
// Upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1.JSONSchemaProps; compare at each upgrade.
func readSchema(text []byte) (*apiextensions.JSONSchemaProps, bool) {
	r := newSchemaReader(text)
	s := r.newSchema()
	return s, r.Done()
}

func newSchemaReader(text []byte) schemaReader {
	return schemaReader{storedjson.NewLexer(text)}
}

// decode decodes a value other than null.
func (r *schemaReader) decode(into any) {
	if text := r.Value(); string(text) == "null" || json.Unmarshal(text, into) != nil {
		r.Refuse()
	}
}

// string decodes a string. The usual values of "type" are constants here, which saves an
// allocation for most of them.
func (r *schemaReader) string() string {
	from := r.Offset()
	quoted := r.QuotedText()
	if bytes.IndexByte(quoted, '\\') >= 0 || !utf8.Valid(quoted) {
		var s string
		if json.Unmarshal(r.Text(from, r.Offset()), &s) != nil {
			r.Refuse()
		}
		return s
	}
	switch string(quoted) {
	case "string":
		return "string"
	case "object":
		return "object"
	case "array":
		return "array"
	case "integer":
		return "integer"
	case "boolean":
		return "boolean"
	}
	return string(quoted)
}

// name decodes the name of a field. Unlike Lexer.Name it takes escapes, which the names of
// properties may have.
func (r *schemaReader) name() string {
	name := r.string()
	r.Expect(':')
	return name
}

func (r *schemaReader) stringPointer() *string {
	s := r.string()
	return &s
}

func (r *schemaReader) strings() []string {
	list := []string{}
	for ok := r.BeginList(); ok; ok = r.NextItem() {
		list = append(list, r.string())
	}
	return list
}

func (r *schemaReader) bool() bool {
	switch string(r.Value()) {
	case "true":
		return true
	case "false":
	default:
		r.Refuse()
	}
	return false
}

func (r *schemaReader) boolPointer() *bool {
	b := r.bool()
	return &b
}

func (r *schemaReader) integer() *int64 {
	n, err := strconv.ParseInt(string(r.Value()), 10, 64)
	if err != nil {
		r.Refuse()
	}
	return &n
}

func (r *schemaReader) number() *float64 {
	var n float64
	r.decode(&n)
	return &n
}

// any decodes a value of any type to the Go type that Kubernetes decodes it to.
func (r *schemaReader) any() *apiextensions.JSON {
	var decoded any
	if r.Peek() == '"' {
		decoded = r.string()
	} else {
		r.decode(&decoded)
	}
	value := apiextensions.JSON(decoded)
	return &value
}

func (r *schemaReader) anys() []apiextensions.JSON {
	list := []apiextensions.JSON{}
	for ok := r.BeginList(); ok; ok = r.NextItem() {
		list = append(list, *r.any())
	}
	return list
}

func (r *schemaReader) newSchema() *apiextensions.JSONSchemaProps {
	s := &apiextensions.JSONSchemaProps{}
	r.schema(s)
	return s
}

func (r *schemaReader) schemas() []apiextensions.JSONSchemaProps {
	list := []apiextensions.JSONSchemaProps{}
	for ok := r.BeginList(); ok; ok = r.NextItem() {
		list = append(list, *r.newSchema())
	}
	return list
}

func (r *schemaReader) properties() map[string]apiextensions.JSONSchemaProps {
	all := map[string]apiextensions.JSONSchemaProps{}
	for ok := r.BeginObject(); ok; ok = r.NextField() {
		name := r.name()
		if _, twice := all[name]; twice {
			r.Refuse()
		}
		all[name] = *r.newSchema()
	}
	return all
}

// schemaOrBool decodes a schema, or a boolean for one that allows all or nothing.
func (r *schemaReader) schemaOrBool() *apiextensions.JSONSchemaPropsOrBool {
	if r.Peek() == '{' {
		return &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: r.newSchema()}
	}
	return &apiextensions.JSONSchemaPropsOrBool{Allows: r.bool()}
}

func (r *schemaReader) rules() apiextensions.ValidationRules {
	var stored v1beta1.ValidationRules
	r.decode(&stored)
	rules := make(apiextensions.ValidationRules, len(stored))
	for i := range stored {
		if err := v1beta1.Convert_v1beta1_ValidationRule_To_apiextensions_ValidationRule(&stored[i], &rules[i], nil); err != nil {
			r.Refuse()
		}
	}
	return rules
}

// schema decodes a schema into out.
func (r *schemaReader) schema(out *apiextensions.JSONSchemaProps) {
	for ok := r.BeginObject(); ok; ok = r.NextField() {
		switch name := r.name(); name {
		case "description":
			out.Description = r.string()
		case "type":
			out.Type = r.string()
		case "format":
			out.Format = r.string()
		case "title":
			out.Title = r.string()
		case "nullable":
			out.Nullable = r.bool()
		case "default":
			out.Default = r.any()
		case "example":
			out.Example = r.any()
		case "enum":
			out.Enum = r.anys()
		case "required":
			out.Required = r.strings()
		case "properties":
			out.Properties = r.properties()
		case "additionalProperties":
			out.AdditionalProperties = r.schemaOrBool()
		case "items":
			out.Items = &apiextensions.JSONSchemaPropsOrArray{Schema: r.newSchema()}
		case "allOf":
			out.AllOf = r.schemas()
		case "oneOf":
			out.OneOf = r.schemas()
		case "anyOf":
			out.AnyOf = r.schemas()
		case "not":
			out.Not = r.newSchema()
		default:
			if !r.limit(name, out) && !r.extension(name, out) {
				r.Refuse()
			}
		}
	}
}

// limit decodes a field that limits values. It returns false if name is no such field.
func (r *schemaReader) limit(name string, out *apiextensions.JSONSchemaProps) bool {
	switch name {
	case "maximum":
		out.Maximum = r.number()
	case "exclusiveMaximum":
		out.ExclusiveMaximum = r.bool()
	case "minimum":
		out.Minimum = r.number()
	case "exclusiveMinimum":
		out.ExclusiveMinimum = r.bool()
	case "multipleOf":
		out.MultipleOf = r.number()
	case "maxLength":
		out.MaxLength = r.integer()
	case "minLength":
		out.MinLength = r.integer()
	case "pattern":
		out.Pattern = r.string()
	case "maxItems":
		out.MaxItems = r.integer()
	case "minItems":
		out.MinItems = r.integer()
	case "uniqueItems":
		out.UniqueItems = r.bool()
	case "maxProperties":
		out.MaxProperties = r.integer()
	case "minProperties":
		out.MinProperties = r.integer()
	default:
		return false
	}
	return true
}

// extension decodes an x-kubernetes field. It returns false if name is none that is known.
func (r *schemaReader) extension(name string, out *apiextensions.JSONSchemaProps) bool {
	switch name {
	case "x-kubernetes-preserve-unknown-fields":
		out.XPreserveUnknownFields = r.boolPointer()
	case "x-kubernetes-embedded-resource":
		out.XEmbeddedResource = r.bool()
	case "x-kubernetes-int-or-string":
		out.XIntOrString = r.bool()
	case "x-kubernetes-list-map-keys":
		out.XListMapKeys = r.strings()
	case "x-kubernetes-list-type":
		out.XListType = r.stringPointer()
	case "x-kubernetes-map-type":
		out.XMapType = r.stringPointer()
	case "x-kubernetes-validations":
		out.XValidations = r.rules()
	default:
		return false
	}
	return true
}
