package fill

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// maxDepth bounds the nesting of values that a schema does not require.
const maxDepth = 7

// schemaValueMaker generates values for the schemas of real projects. It follows types, bounds,
// enums and formats, and the patterns that one of patternValues matches. It ignores rules,
// oneOf, anyOf, allOf and not.
type schemaValueMaker struct {
	valueMaker
	requiredOnly bool // leave out optional properties
	depth        int  // of the value that is being generated
}

// rootObject returns an object without apiVersion, kind, metadata and status.
func (v *schemaValueMaker) rootObject(schema apiextv1.JSONSchemaProps) map[string]any {
	content := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		switch name {
		case "apiVersion", "kind", "metadata", "status":
		default:
			content[name] = v.generate(schema.Properties[name])
		}
	}
	return content
}

// generate returns a value for a schema: its default, a value of its enum, or one of its type.
func (v *schemaValueMaker) generate(s apiextv1.JSONSchemaProps) any {
	v.depth++
	defer func() { v.depth-- }()
	if s.Default != nil {
		return decodeValue(*s.Default)
	}
	if len(s.Enum) > 0 {
		return decodeValue(s.Enum[v.draw.intBelow(len(s.Enum))])
	}
	if s.XIntOrString {
		return int64(1 + v.draw.intBelow(100))
	}
	switch s.Type {
	case "object", "":
		return v.generateObject(s)
	case "array":
		return v.generateArray(s)
	case "boolean":
		return v.draw.intBelow(2) == 0
	case "integer":
		return int64(v.generateNumber(s))
	case "number":
		return v.generateNumber(s)
	}
	return v.generateString(s)
}

// decodeValue returns a JSON value of a schema as a Go value, nil if it is not valid JSON.
func decodeValue(value apiextv1.JSON) any {
	var decoded any
	if json.Unmarshal(value.Raw, &decoded) != nil {
		return nil // servers refuse such a definition
	}
	return decoded
}

// generateObject returns an object. Optional properties end with v.remaining and at maxDepth.
func (v *schemaValueMaker) generateObject(s apiextv1.JSONSchemaProps) map[string]any {
	object := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		required := slices.Contains(s.Required, name)
		if !required && (v.requiredOnly || v.remaining <= 0 || v.depth > maxDepth) {
			continue
		}
		v.remaining--
		object[name] = v.generate(s.Properties[name])
	}
	if more := s.AdditionalProperties; more != nil && more.Schema != nil && !v.requiredOnly && v.depth <= maxDepth {
		object["key"] = v.generate(*more.Schema)
	}
	return object
}

// generateArray returns an array of the smallest permitted length, but of one item if optional
// content is wanted.
func (v *schemaValueMaker) generateArray(s apiextv1.JSONSchemaProps) []any {
	items := []any{}
	least := 1
	if v.requiredOnly || v.depth > maxDepth {
		least = 0
	}
	if s.MinItems != nil {
		least = max(least, int(*s.MinItems))
	}
	for range least {
		if s.Items != nil && s.Items.Schema != nil {
			items = append(items, v.generate(*s.Items.Schema))
		}
	}
	return items
}

// generateNumber returns a whole number within the schema's bounds, or a multiple of
// multipleOf, which may exceed the maximum.
func (v *schemaValueMaker) generateNumber(s apiextv1.JSONSchemaProps) float64 {
	low, high := 1.0, 100.0
	if s.Minimum != nil {
		low = *s.Minimum
		high = max(high, low+1)
	}
	if s.Maximum != nil {
		high = *s.Maximum
		low = min(low, high)
	}
	n := low + float64(v.draw.intBelow(int(max(1, high-low))))
	if s.MultipleOf != nil && *s.MultipleOf > 0 {
		n = *s.MultipleOf * float64(int(n / *s.MultipleOf)+1)
	}
	return n
}

// patternValues returns the strings that are tried for a pattern, in this order.
func patternValues() []string {
	return []string{
		"a", "abc", "example", "example-1", "A", "1", "10", "1.0", "v1", "1s", "10s", "1m", "1h0m0s", "1Gi", "100m", "1%", "/", "/path", "true", "example.com", "example.com/name", "*.example.com",
		"https://example.com", "http://example.com/path", "10.0.0.1", "10.0.0.0/8", "ABC", "key=value", "arn:aws:iam::123456789012:role/example", "00000000-0000-4000-8000-000000000000",
		"sha256:" + strings.Repeat("0", 64), strings.Repeat("0", 32), strings.Repeat("0", 64), "",
	}
}

// generateString returns a string of the schema's format, pattern and length. A pattern that no
// patternValue matches is ignored.
func (v *schemaValueMaker) generateString(s apiextv1.JSONSchemaProps) string {
	for _, format := range formats() {
		if format[0] == s.Format {
			return format[1]
		}
	}
	value := "example"
	switch s.Format {
	case "uri":
		value = "https://example.com"
	case "byte":
		value = "ZXhhbXBsZQ=="
	case "cidr":
		value = "10.0.0.0/8"
	}
	if s.Format == "" && s.Pattern == "" && !v.requiredOnly {
		value = strings.TrimSpace(strings.Map(plainOnly, v.phrase()))
	}
	if s.Pattern != "" {
		if pattern, err := regexp.Compile(s.Pattern); err == nil {
			if i := slices.IndexFunc(patternValues(), pattern.MatchString); i >= 0 {
				value = patternValues()[i]
			}
		}
	}
	if s.MinLength != nil && len(value) < int(*s.MinLength) && s.Pattern == "" {
		value += strings.Repeat("x", int(*s.MinLength)-len(value))
	}
	if s.MaxLength != nil && len(value) > int(*s.MaxLength) {
		value = value[:*s.MaxLength]
	}
	return value
}

// plainOnly drops everything but letters and digits, so that a text is a valid name as well. It
// is a mapping for strings.Map.
func plainOnly(c rune) rune {
	if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
		return c
	}
	return -1
}
