package crds

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
)

// generator makes random objects from schemas. Most of them are valid as far as the keywords
// of the schema tell, which leaves out rules. Some are wrong somewhere.
type generator struct {
	*rand.Rand
	// full gives objects about half of their optional fields. Without it they have the
	// required ones alone.
	full bool
	// wrong is n if one value in n breaks the schema, and 0 if none does.
	wrong int
}

// oneIn returns true once in n calls on average.
func (g *generator) oneIn(n int) bool { return g.IntN(n) == 0 }

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

// maxOptionalDepth is the depth below which optional fields are left out.
const maxOptionalDepth = 6

// value makes a value for a schema. depth is 0 for the object itself.
func (g *generator) value(schema object, depth int) any {
	if g.wrong > 0 && depth > 0 && g.oneIn(g.wrong) {
		return g.wrongValue()
	}
	if enum, ok := schema["enum"].([]any); ok && len(enum) > 0 {
		return pick(g, enum...)
	}
	if schema["nullable"] == true && g.oneIn(4) {
		return nil
	}
	if schema["x-kubernetes-int-or-string"] == true {
		return pick[any](g, g.integer(schema), "50%", "http", "80")
	}
	switch schema["type"] {
	case "object":
		return g.object(schema, depth)
	case "array":
		return g.array(schema, depth)
	case "string":
		return g.text(schema)
	case "integer":
		return g.integer(schema)
	case "number":
		return float64(g.integer(schema)) + pick(g, 0, 0.5)
	case "boolean":
		return g.oneIn(2)
	}
	return g.untypedValue(depth)
}

// wrongValue returns a value of any type.
func (g *generator) wrongValue() any {
	return pick[any](g, nil, "", "odd", -1, 1.5, true, []any{}, []any{nil}, object{}, object{"odd": 1}, "a b", 1<<40)
}

// untypedValue returns a value where the schema has no type.
func (g *generator) untypedValue(depth int) any {
	if depth > maxOptionalDepth || g.oneIn(2) {
		return pick[any](g, "x", 5, 2.5, false, "<&>", object{}, []any{1, "a"})
	}
	return object{"x": g.untypedValue(depth + 1), "z": g.untypedValue(depth + 1)}
}

func (g *generator) object(schema object, depth int) object {
	o := object{}
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property, ok := properties[name].(map[string]any)
		if !ok || depth == 0 && (name == "metadata" || name == "apiVersion" || name == "kind") {
			continue
		}
		if slices.Contains(required, any(name)) || depth == 0 && name == "spec" || g.full && depth < maxOptionalDepth && g.oneIn(2) {
			o[name] = g.value(property, depth+1)
		}
	}
	if g.wrong > 0 && len(o) > 0 && g.oneIn(g.wrong) {
		delete(o, pick(g, slices.Sorted(maps.Keys(o))...))
	}
	if g.wrong > 0 && g.oneIn(g.wrong) {
		o["unknownField"] = g.untypedValue(depth)
	}
	if more, ok := schema["additionalProperties"].(map[string]any); ok && g.full {
		for i := range g.IntN(3) {
			o[fmt.Sprintf("key-%d", i)] = g.value(more, depth+1)
		}
	}
	if schema["x-kubernetes-preserve-unknown-fields"] == true && g.full {
		o["anything"] = g.untypedValue(depth)
	}
	if schema["x-kubernetes-embedded-resource"] == true && depth > 0 {
		o["apiVersion"], o["kind"], o["metadata"] = "v1", "Thing", object{"name": "embedded"}
	}
	return o
}

func (g *generator) array(schema object, depth int) any {
	items, _ := schema["items"].(map[string]any)
	least, most := int(number(schema["minItems"], 0)), int(number(schema["maxItems"], 3))
	if g.full {
		least = max(least, g.IntN(3))
	}
	list := []any{}
	for range min(least, most) {
		list = append(list, g.value(items, depth+1))
	}
	return list
}

func (g *generator) integer(schema object) int64 {
	low, high := number(schema["minimum"], 0), number(schema["maximum"], 1000)
	if schema["exclusiveMinimum"] == true {
		low++
	}
	n := int64(low)
	if high > low {
		n += g.Int64N(int64(min(high-low, 1<<30)) + 1)
	}
	if of := int64(number(schema["multipleOf"], 0)); of > 0 {
		n = (n + of - 1) / of * of
	}
	return n
}

func number(v any, otherwise float64) float64 {
	switch n := v.(type) {
	case float64:
		return n
	case int64:
		return float64(n)
	case int:
		return float64(n)
	}
	return otherwise
}

// formats has strings of the formats that validation knows.
var formats = map[string][]string{
	"date-time": {"2001-02-03T04:05:06Z", "2020-01-01T00:00:00.5+01:00"}, "date": {"2001-02-03"}, "duration": {"5s", "1h30m"},
	"uri": {"https://example.com/x"}, "email": {"a@example.com"}, "ipv4": {"10.0.0.1"}, "ipv6": {"::1"}, "ip": {"10.0.0.1"},
	"cidr": {"10.0.0.0/8"}, "uuid": {"123e4567-e89b-12d3-a456-426614174000"}, "byte": {"aGk="}, "hostname": {"example.com"},
	"mac": {"00:11:22:33:44:55"}, "password": {"secret"}, "int-or-string": {"5"},
}

// candidates are strings that are tried on patterns.
var candidates = []string{
	"a", "abc", "name-1", "5", "10s", "1h", "100m", "1Gi", "Abc", "ABC", "example.com", "/path", "https://example.com/a", "http://a.b",
	"v1", "v1.2.3", "10.0.0.0/8", "*", "a/b", "example.com/a", "2001-02-03T04:05:06Z", "true", "key=value", "abcd1234",
	"0123456789abcdef0123456789abcdef", "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "00:00", "+01:00", "",
}

func (g *generator) text(schema object) string {
	format, _ := schema["format"].(string)
	if texts := formats[format]; len(texts) > 0 {
		return pick(g, texts...)
	}
	least, most := int(number(schema["minLength"], 0)), int(number(schema["maxLength"], 1000))
	fits := func(s string) bool { return len(s) >= least && len(s) <= most }
	if pattern, ok := schema["pattern"].(string); ok {
		expression, err := regexp.Compile(pattern)
		if err == nil {
			matching := fits
			fits = func(s string) bool { return matching(s) && expression.MatchString(s) }
		}
	}
	start := g.IntN(len(candidates))
	for i := range candidates {
		if s := candidates[(start+i)%len(candidates)]; fits(s) {
			return s
		}
	}
	return "none-fits"
}
