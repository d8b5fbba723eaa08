package storedvalues

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// value is an odd value for the key of an object.
type value struct {
	name string
	// stored makes the bytes, of an object as the API has it, and of how it is stored. Nil
	// bytes mean that there are none for the kind.
	stored func(s *sample) []byte
}

// sample is an object to make odd values of, under the name of the odd one.
type sample struct {
	random *rand.Rand
	kind   *kind
	// object is the decoded object.
	object map[string]any
	// raw is the steady object as it is stored.
	raw []byte
}

// edited returns the object as JSON with changes.
func (s *sample) edited(change func(object map[string]any)) []byte {
	object := deepCopy(s.object)
	change(object)
	encoded, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return encoded
}

func deepCopy(object map[string]any) map[string]any {
	encoded, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	var again map[string]any
	if err := json.Unmarshal(encoded, &again); err != nil {
		panic(err)
	}
	return again
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

func metadataOf(object map[string]any) map[string]any {
	m, _ := object["metadata"].(map[string]any)
	return m
}

// spliced returns the object with one field of raw JSON, which may be invalid.
func (s *sample) spliced(field, raw string) []byte {
	encoded := s.edited(func(o map[string]any) { o[field] = "MARK" })
	return bytes.Replace(encoded, []byte(`"MARK"`), []byte(raw), 1)
}

func constant(text string) func(*sample) []byte {
	return func(*sample) []byte { return []byte(text) }
}

// withMetadata sets a field of the metadata.
func withMetadata(field string, content any) func(*sample) []byte {
	return func(s *sample) []byte {
		return s.edited(func(o map[string]any) { metadataOf(o)[field] = content })
	}
}

// without removes a field.
func without(field string) func(*sample) []byte {
	return func(s *sample) []byte { return s.edited(func(o map[string]any) { delete(o, field) }) }
}

// with sets a field.
func with(field string, content any) func(*sample) []byte {
	return func(s *sample) []byte { return s.edited(func(o map[string]any) { o[field] = content }) }
}

// labelPairs is the number of labels of the value with very many.
const labelPairs = 2_000_000

// manyLabels returns the object with labels "0", "1" and so on.
func manyLabels(n int) func(*sample) []byte {
	return func(s *sample) []byte {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, `,"%d":""`, i)
		}
		encoded := s.edited(func(o map[string]any) { metadataOf(o)["labels"] = "MARK" })
		return bytes.Replace(encoded, []byte(`"MARK"`), []byte("{"+text.String()[1:]+"}"), 1)
	}
}

// nested returns brackets to a depth.
func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func nestedObjects(depth int) string {
	return strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth)
}

// values are the odd values for any kind.
func values() []value {
	all := []value{
		{"nothing", constant("")},
		{"a zero byte", constant("\x00")},
		{"CBOR without metadata", constant("\xd9\xd9\xf7\xa1\x61a\x61a")},
		{"CBOR null", constant("\xd9\xd9\xf7\xf6")},
		{"CBOR that is cut off", constant("\xd9\xd9\xf7\xa1\x68meta")},
		{"null", constant("null")},
		{"a JSON list", constant("[]")},
		{"a JSON number", constant("17")},
		{"a JSON text", constant(`"text"`)},
		{"an empty JSON object", constant("{}")},
		{"YAML", constant("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: odd}\n")},
		{"a YAML bomb", constant("a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n")},
		{"another kind", constant(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"odd"}}`)},
		{"an unknown kind", constant(`{"apiVersion":"bug.example/v1","kind":"Nothing","metadata":{"name":"odd"}}`)},
		{"a list", func(s *sample) []byte {
			return s.edited(func(o map[string]any) {
				item := maps.Clone(o)
				clear(o)
				o["apiVersion"], o["kind"], o["metadata"], o["items"] = item["apiVersion"], fmt.Sprint(item["kind"], "List"), map[string]any{}, []any{item}
			})
		}},
		{"a List", constant(`{"apiVersion":"v1","kind":"List","metadata":{},"items":[]}`)},
		{"no apiVersion", without("apiVersion")},
		{"no kind", without("kind")},
		{"no metadata", without("metadata")},
		{"metadata null", with("metadata", nil)},
		{"metadata of another type", with("metadata", "text")},
		{"no spec", without("spec")},
		{"spec null", with("spec", nil)},
		{"spec of another type", with("spec", []any{1})},
		{"status of another type", with("status", "text")},
		{"JSON", func(s *sample) []byte { return s.edited(func(map[string]any) {}) }},
		{"indented JSON", func(s *sample) []byte { return append([]byte("  \n"), s.edited(func(map[string]any) {})...) }},
		{"CBOR", func(s *sample) []byte {
			encoded, err := cbor.Marshal(s.object)
			if err != nil {
				panic(err)
			}
			return encoded
		}},
		{"another name", withMetadata("name", "another")},
		{"the name of the steady object", func(s *sample) []byte { return withMetadata("name", s.kind.nameOf())(s) }},
		{"no name", withMetadata("name", "")},
		{"a name with slashes", withMetadata("name", "../a/b")},
		{"another namespace", withMetadata("namespace", "elsewhere")},
		{"another UID", withMetadata("uid", "00000000-0000-0000-0000-000000000000")},
		{"no UID", withMetadata("uid", "")},
		{"labels of another type", withMetadata("labels", map[string]any{"a": 1})},
		{"labels null", withMetadata("labels", nil)},
		{"a time that is none", withMetadata("creationTimestamp", "yesterday")},
		{"a deletion timestamp", withMetadata("deletionTimestamp", "2020-01-01T00:00:00Z")},
		{"an owner without a kind", withMetadata("ownerReferences", []any{map[string]any{}})},
		{"managed fields of another type", withMetadata("managedFields", []any{map[string]any{"manager": "m", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": "text"}})},
		{"invalid UTF-8", withMetadataBytes("\"\xff\xfe\"")},
		{"a lone surrogate", withMetadataBytes(`"\ud800"`)},
		{"a duplicate field", func(s *sample) []byte {
			return append([]byte(`{"metadata":{"name":"twice"},`), s.edited(func(map[string]any) {})[1:]...)
		}},
		{"lists to a depth of 5,000", func(s *sample) []byte { return s.spliced("spec", nested(5000)) }},
		{"lists to a depth of 1,000,000", func(s *sample) []byte { return s.spliced("spec", nested(1_000_000)) }},
		{"objects to a depth of 9,000", func(s *sample) []byte { return s.spliced("spec", nestedObjects(9000)) }},
		{"objects to a depth of 500,000", func(s *sample) []byte { return s.spliced("spec", nestedObjects(500_000)) }},
		{"CBOR to a depth of 1,000,000", constant("\xd9\xd9\xf7" + strings.Repeat("\x81", 1_000_000) + "\x01")},
		{"a large annotation", withMetadata("annotations", map[string]any{"large": strings.Repeat("x", 3<<20)})},
		{"many labels", manyLabels(20_000)},
		{"a schema of another type", schemaOf(map[string]any{"type": 5})},
		{"a schema that refers to itself", schemaOf(map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"$ref": "#"}}})},
		{"a schema without types", schemaOf(map[string]any{"properties": map[string]any{"a": nil}})},
		{"a schema with a rule that is none", schemaOf(map[string]any{"type": "object", "x-kubernetes-validations": []any{map[string]any{"rule": "self.(("}, nil}})},
		{"a conversion webhook without a client", func(s *sample) []byte {
			if !s.kind.isDefinitions() {
				return nil
			}
			return s.edited(func(o map[string]any) { specOf(o)["conversion"] = map[string]any{"strategy": "Webhook"} })
		}},
		{"an envelope without content", constant("k8s\x00")},
		{"an envelope of nothing", constant("k8s\x00\x0a\x00\x12\x00\x1a\x00\x22\x00")},
		{"a protobuf length beyond the end", constant("k8s\x00\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f")},
		{"an unknown envelope", constant("k9s\x00\x01\x02\x03")},
		{"protobuf groups to a depth of 1,000,000", constant("k8s\x00" + strings.Repeat("\x0b", 1_000_000))},
	}
	for _, prefix := range []string{"k8s:enc:aescbc:v1:gone:", "k8s:enc:aesgcm:v1:gone:", "k8s:enc:secretbox:v1:gone:", "k8s:enc:kms:v2:gone:", "k8s:enc:", "k8s:enc:none:v9:"} {
		all = append(all, value{"encrypted as " + prefix, constant(prefix + "\x00\x01\x02\x03\x04\x05\x06\x07\x08")})
	}
	return append(all, randomValues()...)
}

func specOf(object map[string]any) map[string]any {
	m, _ := object["spec"].(map[string]any)
	return m
}

// schemaOf sets the schema of a definition's version.
func schemaOf(schema map[string]any) func(*sample) []byte {
	return func(s *sample) []byte {
		if !s.kind.isDefinitions() {
			return nil
		}
		return s.edited(func(o map[string]any) {
			versions, _ := specOf(o)["versions"].([]any)
			version, _ := versions[0].(map[string]any)
			version["schema"] = map[string]any{"openAPIV3Schema": schema}
		})
	}
}

// withMetadataBytes sets a label to a raw JSON value.
func withMetadataBytes(raw string) func(*sample) []byte {
	return func(s *sample) []byte {
		encoded := s.edited(func(o map[string]any) { metadataOf(o)["labels"] = map[string]any{"a": "MARK"} })
		return bytes.Replace(encoded, []byte(`"MARK"`), []byte(raw), 1)
	}
}

// randomValues are different each time.
func randomValues() []value {
	return []value{
		{"random bytes", func(s *sample) []byte {
			random := make([]byte, s.random.IntN(300))
			for i := range random {
				random[i] = byte(s.random.Uint32())
			}
			return random
		}},
		{"an envelope with random bytes", func(s *sample) []byte {
			random := []byte("k8s\x00")
			for range s.random.IntN(300) {
				random = append(random, byte(s.random.Uint32()))
			}
			return random
		}},
		{"the stored bytes, cut off", func(s *sample) []byte { return s.raw[:s.random.IntN(len(s.raw))] }},
		{"the stored bytes, some flipped", func(s *sample) []byte {
			flipped := bytes.Clone(s.raw)
			for range 1 + s.random.IntN(4) {
				flipped[s.random.IntN(len(flipped))] ^= byte(1 + s.random.IntN(255))
			}
			return flipped
		}},
		{"a random field removed", func(s *sample) []byte { return s.edited(func(o map[string]any) { mutate(s.random, o, nil, true) }) }},
		{"a random field null", func(s *sample) []byte { return s.edited(func(o map[string]any) { mutate(s.random, o, nil, false) }) }},
		{"a random field of another type", func(s *sample) []byte {
			others := []any{5.0, "text", []any{}, map[string]any{}, true, -1.0, []any{nil}, map[string]any{"a": nil}}
			return s.edited(func(o map[string]any) { mutate(s.random, o, others[s.random.IntN(len(others))], false) })
		}},
	}
}

// mutate replaces or removes a random field of an object, at any depth. Names and kinds at the
// top stay, so that the rest is looked at.
func mutate(random *rand.Rand, object map[string]any, with any, remove bool) {
	type place struct {
		in    any
		field string
		index int
	}
	var places []place
	var walk func(v any, depth int)
	walk = func(v any, depth int) {
		switch v := v.(type) {
		case map[string]any:
			for _, name := range sortedKeys(v) {
				if depth > 0 || name != "apiVersion" && name != "kind" && name != "metadata" {
					places = append(places, place{in: v, field: name})
				}
				walk(v[name], depth+1)
			}
		case []any:
			for i := range v {
				places = append(places, place{in: v, index: i})
				walk(v[i], depth+1)
			}
		}
	}
	walk(object, 0)
	if len(places) == 0 {
		return
	}
	at := places[random.IntN(len(places))]
	switch in := at.in.(type) {
	case map[string]any:
		if in[at.field] = with; remove {
			delete(in, at.field)
		}
	case []any:
		in[at.index] = with
	}
}

// TestValues checks that values can be made, and that they are the same for the same seed.
func TestValues(t *testing.T) {
	for _, v := range values() {
		var made [2][]byte
		for i := range made {
			s := &sample{
				random: rand.New(rand.NewPCG(1, 2)), kind: kinds()[0], raw: []byte("k8s\x00stored bytes"),
				object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "odd"}, "data": map[string]any{"k": "v"}},
			}
			made[i] = v.stored(s)
		}
		if !bytes.Equal(made[0], made[1]) {
			t.Errorf("%s is not the same each time", v.name)
		}
	}
}
