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

// schemaValue makes values for the schemas of real projects. It follows types, bounds, enums
// and formats, and the patterns that one of patternValues matches; rules and what oneOf and
// its like say it does not.
type schemaValue struct {
	valueMaker
	requiredOnly bool
	depth        int
}

// root is an object without apiVersion, kind, metadata and status.
func (v *schemaValue) root(schema apiextv1.JSONSchemaProps) map[string]any {
	content := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		switch name {
		case "apiVersion", "kind", "metadata", "status":
		default:
			content[name] = v.of(schema.Properties[name])
		}
	}
	return content
}

func (v *schemaValue) of(s apiextv1.JSONSchemaProps) any {
	v.depth++
	defer func() { v.depth-- }()
	if s.Default != nil {
		return raw(*s.Default)
	}
	if len(s.Enum) > 0 {
		return raw(s.Enum[v.draw.below(len(s.Enum))])
	}
	if s.XIntOrString {
		return int64(1 + v.draw.below(100))
	}
	switch s.Type {
	case "object", "":
		return v.objectOf(s)
	case "array":
		return v.arrayOf(s)
	case "boolean":
		return v.draw.below(2) == 0
	case "integer":
		return int64(v.numberOf(s))
	case "number":
		return v.numberOf(s)
	}
	return v.stringOf(s)
}

func raw(value apiextv1.JSON) any {
	var decoded any
	if json.Unmarshal(value.Raw, &decoded) != nil {
		return nil // a server has refused such a definition
	}
	return decoded
}

func (v *schemaValue) objectOf(s apiextv1.JSONSchemaProps) map[string]any {
	object := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		required := slices.Contains(s.Required, name)
		if !required && (v.requiredOnly || v.remaining <= 0 || v.depth > maxDepth) {
			continue
		}
		v.remaining--
		object[name] = v.of(s.Properties[name])
	}
	if more := s.AdditionalProperties; more != nil && more.Schema != nil && !v.requiredOnly && v.depth <= maxDepth {
		object["key"] = v.of(*more.Schema)
	}
	return object
}

func (v *schemaValue) arrayOf(s apiextv1.JSONSchemaProps) []any {
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
			items = append(items, v.of(*s.Items.Schema))
		}
	}
	return items
}

func (v *schemaValue) numberOf(s apiextv1.JSONSchemaProps) float64 {
	low, high := 1.0, 100.0
	if s.Minimum != nil {
		low = *s.Minimum
		high = max(high, low+1)
	}
	if s.Maximum != nil {
		high = *s.Maximum
		low = min(low, high)
	}
	n := low + float64(v.draw.below(int(max(1, high-low))))
	if s.MultipleOf != nil && *s.MultipleOf > 0 {
		n = *s.MultipleOf * float64(int(n / *s.MultipleOf)+1)
	}
	return n
}

// patternValues are tried for a pattern.
func patternValues() []string {
	return []string{
		"a", "abc", "example", "example-1", "A", "1", "10", "1.0", "v1", "1s", "10s", "1m", "1h0m0s", "1Gi", "100m", "1%", "/", "/path", "true", "example.com", "example.com/name", "*.example.com",
		"https://example.com", "http://example.com/path", "10.0.0.1", "10.0.0.0/8", "ABC", "key=value", "arn:aws:iam::123456789012:role/example", "00000000-0000-4000-8000-000000000000",
		"sha256:" + strings.Repeat("0", 64), strings.Repeat("0", 32), strings.Repeat("0", 64), "",
	}
}

func (v *schemaValue) stringOf(s apiextv1.JSONSchemaProps) string {
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
		value = strings.TrimSpace(strings.Map(plainOnly, v.words()))
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

// plainOnly leaves letters and digits, so that a text is a name as well.
func plainOnly(c rune) rune {
	if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
		return c
	}
	return -1
}
