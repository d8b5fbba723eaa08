package crd

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/util/json"
)

// cursor reads a schema in one pass over its text, which is written as usual (see
// object). It fails on what is not, and on fields that are seldom used.
type cursor struct {
	text   []byte
	at     int
	failed bool
}

func (c *cursor) fail() { c.failed, c.at = true, len(c.text) }

// take steps over a letter if it is there.
func (c *cursor) take(letter byte) bool {
	if c.at < len(c.text) && c.text[c.at] == letter {
		c.at++
		return true
	}
	return false
}

func (c *cursor) expect(letter byte) {
	if !c.take(letter) {
		c.fail()
	}
}

// parts visits what stands in brackets. visit steps over each.
func (c *cursor) parts(opening, closing byte, visit func()) {
	c.expect(opening)
	if c.take(closing) {
		return
	}
	for !c.failed {
		visit()
		if !c.take(',') {
			c.expect(closing)
			return
		}
	}
}

// fields visits the fields of an object. visit steps over their values.
func (c *cursor) fields(visit func(name string)) {
	c.parts('{', '}', func() {
		name := c.string()
		c.expect(':')
		visit(name)
	})
}

// value steps over a value and returns its text.
func (c *cursor) value() []byte {
	n := endOfValue(c.text[c.at:])
	if n < 0 {
		c.fail()
		return nil
	}
	c.at += n
	return c.text[c.at-n : c.at]
}

// decode steps over a value that is not null and decodes it.
func (c *cursor) decode(into any) {
	if text := c.value(); string(text) == "null" || json.Unmarshal(text, into) != nil {
		c.fail()
	}
}

func (c *cursor) string() string {
	text := c.text[c.at:]
	if len(text) == 0 || text[0] != '"' {
		c.fail()
		return ""
	}
	n := endOfString(text)
	if n < 0 {
		c.fail()
		return ""
	}
	inner := text[1 : n-1]
	if bytes.IndexByte(inner, '\\') >= 0 || !utf8.Valid(inner) {
		var s string
		c.decode(&s)
		return s
	}
	c.at += n
	switch string(inner) {
	// What most schemas say is there once.
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
	return string(inner)
}

func (c *cursor) stringPointer() *string {
	s := c.string()
	return &s
}

func (c *cursor) strings() []string {
	list := []string{}
	c.parts('[', ']', func() { list = append(list, c.string()) })
	return list
}

func (c *cursor) bool() bool {
	switch string(c.value()) {
	case "true":
		return true
	case "false":
	default:
		c.fail()
	}
	return false
}

func (c *cursor) boolPointer() *bool {
	b := c.bool()
	return &b
}

func (c *cursor) integer() *int64 {
	n, err := strconv.ParseInt(string(c.value()), 10, 64)
	if err != nil {
		c.fail()
	}
	return &n
}

func (c *cursor) number() *float64 {
	var n float64
	c.decode(&n)
	return &n
}

// any decodes a value as Kubernetes does those that may be anything.
func (c *cursor) any() *apiextensions.JSON {
	var decoded any
	if c.at < len(c.text) && c.text[c.at] == '"' {
		decoded = c.string()
	} else {
		c.decode(&decoded)
	}
	made := apiextensions.JSON(decoded)
	return &made
}

func (c *cursor) anys() []apiextensions.JSON {
	list := []apiextensions.JSON{}
	c.parts('[', ']', func() { list = append(list, *c.any()) })
	return list
}

func (c *cursor) newSchema() *apiextensions.JSONSchemaProps {
	made := &apiextensions.JSONSchemaProps{}
	c.schema(made)
	return made
}

func (c *cursor) schemas() []apiextensions.JSONSchemaProps {
	list := []apiextensions.JSONSchemaProps{}
	c.parts('[', ']', func() { list = append(list, *c.newSchema()) })
	return list
}

func (c *cursor) properties() map[string]apiextensions.JSONSchemaProps {
	all := map[string]apiextensions.JSONSchemaProps{}
	c.fields(func(name string) {
		if _, twice := all[name]; twice {
			c.fail()
		}
		all[name] = *c.newSchema()
	})
	return all
}

// schemaOrBool reads an object or a word.
func (c *cursor) schemaOrBool() *apiextensions.JSONSchemaPropsOrBool {
	if c.at < len(c.text) && c.text[c.at] == '{' {
		return &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: c.newSchema()}
	}
	return &apiextensions.JSONSchemaPropsOrBool{Allows: c.bool()}
}

func (c *cursor) rules() apiextensions.ValidationRules {
	var stored v1beta1.ValidationRules
	c.decode(&stored)
	made := make(apiextensions.ValidationRules, len(stored))
	for i := range stored {
		if err := v1beta1.Convert_v1beta1_ValidationRule_To_apiextensions_ValidationRule(&stored[i], &made[i], nil); err != nil {
			c.fail()
		}
	}
	return made
}

// schema reads a schema.
func (c *cursor) schema(out *apiextensions.JSONSchemaProps) {
	c.fields(func(name string) {
		switch name {
		case "description":
			out.Description = c.string()
		case "type":
			out.Type = c.string()
		case "format":
			out.Format = c.string()
		case "title":
			out.Title = c.string()
		case "nullable":
			out.Nullable = c.bool()
		case "default":
			out.Default = c.any()
		case "example":
			out.Example = c.any()
		case "enum":
			out.Enum = c.anys()
		case "required":
			out.Required = c.strings()
		case "properties":
			out.Properties = c.properties()
		case "additionalProperties":
			out.AdditionalProperties = c.schemaOrBool()
		case "items":
			out.Items = &apiextensions.JSONSchemaPropsOrArray{Schema: c.newSchema()}
		case "allOf":
			out.AllOf = c.schemas()
		case "oneOf":
			out.OneOf = c.schemas()
		case "anyOf":
			out.AnyOf = c.schemas()
		case "not":
			out.Not = c.newSchema()
		default:
			if !c.limit(name, out) && !c.extension(name, out) {
				c.fail()
			}
		}
	})
}

// limit reads a field that bounds values.
func (c *cursor) limit(name string, out *apiextensions.JSONSchemaProps) bool {
	switch name {
	case "maximum":
		out.Maximum = c.number()
	case "exclusiveMaximum":
		out.ExclusiveMaximum = c.bool()
	case "minimum":
		out.Minimum = c.number()
	case "exclusiveMinimum":
		out.ExclusiveMinimum = c.bool()
	case "multipleOf":
		out.MultipleOf = c.number()
	case "maxLength":
		out.MaxLength = c.integer()
	case "minLength":
		out.MinLength = c.integer()
	case "pattern":
		out.Pattern = c.string()
	case "maxItems":
		out.MaxItems = c.integer()
	case "minItems":
		out.MinItems = c.integer()
	case "uniqueItems":
		out.UniqueItems = c.bool()
	case "maxProperties":
		out.MaxProperties = c.integer()
	case "minProperties":
		out.MinProperties = c.integer()
	default:
		return false
	}
	return true
}

// extension reads a field of Kubernetes' own.
func (c *cursor) extension(name string, out *apiextensions.JSONSchemaProps) bool {
	switch name {
	case "x-kubernetes-preserve-unknown-fields":
		out.XPreserveUnknownFields = c.boolPointer()
	case "x-kubernetes-embedded-resource":
		out.XEmbeddedResource = c.bool()
	case "x-kubernetes-int-or-string":
		out.XIntOrString = c.bool()
	case "x-kubernetes-list-map-keys":
		out.XListMapKeys = c.strings()
	case "x-kubernetes-list-type":
		out.XListType = c.stringPointer()
	case "x-kubernetes-map-type":
		out.XMapType = c.stringPointer()
	case "x-kubernetes-validations":
		out.XValidations = c.rules()
	default:
		return false
	}
	return true
}
