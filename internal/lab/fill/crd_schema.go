package fill

import (
	"encoding/json"
	"fmt"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const (
	// fixedPropertyCount is the number of spec properties that every definition
	// has. Printer columns, selectable fields and rules refer to them.
	fixedPropertyCount = 3
	// maxMembers bounds the direct properties of one object. More properties are
	// moved into nested objects, of which there are at most maxSections.
	maxMembers  = 16
	maxSections = 12
	// descriptionLength is the shortest length of a description in bytes, without the full stop.
	descriptionLength = 56
)

// crdClasses returns the values of spec.class.
func crdClasses() []string { return []string{"economy", "standard", "premium"} }

// crdSchema returns the OpenAPI schema of definition i.
func (g *Generator) crdSchema(i int) *apiextv1.JSONSchemaProps {
	draw := newStream(g.shape.Seed, drawSchema, i)
	s := schemaMaker{words: g.words.plain, draw: &draw}
	spec := s.objectSchema()
	spec.Properties = s.members(g.shape.Properties - fixedPropertyCount)
	least, most := float64(0), float64(1000)
	spec.Properties["class"] = apiextv1.JSONSchemaProps{Type: "string", Description: s.sentence(), Enum: enum(crdClasses())}
	spec.Properties["replicas"] = apiextv1.JSONSchemaProps{Type: "integer", Format: "int32", Description: s.sentence(),
		Minimum: &least, Maximum: &most, Default: &apiextv1.JSON{Raw: []byte("1")}}
	spec.Properties["maxReplicas"] = apiextv1.JSONSchemaProps{Type: "integer", Format: "int32", Description: s.sentence(), Minimum: &least}
	spec.Required = []string{"class"}
	if i%definitionsPerRule == 0 {
		spec.XValidations = apiextv1.ValidationRules{
			{Rule: "!has(self.maxReplicas) || self.replicas <= self.maxReplicas", Message: "replicas must not exceed maxReplicas"},
			{Rule: "self.class != 'economy' || self.replicas <= 100", Message: "economy has at most 100 replicas"},
		}
	}
	text := apiextv1.JSONSchemaProps{Type: "string"}
	return &apiextv1.JSONSchemaProps{
		Type: "object", Description: s.sentence(), Required: []string{"spec"},
		Properties: map[string]apiextv1.JSONSchemaProps{
			"apiVersion": text, "kind": text, "metadata": {Type: "object"}, "spec": spec, "status": s.statusSchema(),
		},
	}
}

// schemaMaker generates schemas from random draws. Every method takes draws from
// the same stream, so the order of calls determines the schema.
type schemaMaker struct {
	words []string
	draw  *stream
}

func (s *schemaMaker) word() string { return s.words[s.draw.intBelow(len(s.words))] }

func (s *schemaMaker) objectSchema() apiextv1.JSONSchemaProps {
	return apiextv1.JSONSchemaProps{Type: "object", Description: s.sentence()}
}

// sentence returns a description of about 60 bytes.
func (s *schemaMaker) sentence() string {
	var b strings.Builder
	b.WriteString(title(s.word()))
	for b.Len() < descriptionLength {
		b.WriteString(" " + s.word())
	}
	return b.String() + "."
}

// members returns n properties. The count includes nested objects and their
// properties.
func (s *schemaMaker) members(n int) map[string]apiextv1.JSONSchemaProps {
	leaves := n
	sections := 0
	if n > maxMembers {
		leaves = maxMembers / 2
		sections = min(maxSections, n/maxMembers)
	}
	members := make(map[string]apiextv1.JSONSchemaProps, leaves+sections+fixedPropertyCount)
	for range leaves {
		members[s.name(members)] = s.leaf()
	}
	rest := n - leaves
	for k := range sections {
		nested := s.objectSchema()
		nested.Properties = s.members(rest*(k+1)/sections - rest*k/sections - 1)
		if s.draw.intBelow(4) == 0 {
			item := nested
			nested = apiextv1.JSONSchemaProps{Type: "array", Description: s.sentence(), Items: &apiextv1.JSONSchemaPropsOrArray{Schema: &item}}
		}
		members[s.name(members)] = nested
	}
	return members
}

// name returns a property name that others does not contain. The name joins two words of the
// vocabulary. No fixed property has such a name.
func (s *schemaMaker) name(others map[string]apiextv1.JSONSchemaProps) string {
	name := s.word() + title(s.word())
	for i := 2; ; i++ {
		if _, taken := others[name]; !taken {
			return name
		}
		name = fmt.Sprintf("%s%s%d", s.word(), title(s.word()), i)
	}
}

// formats returns the string formats in use, each with a valid value.
func formats() [][2]string {
	return [][2]string{
		{"date-time", "2026-01-02T03:04:05Z"}, {"duration", "90s"}, {"ipv4", "10.1.2.3"}, {"hostname", "node-1.example.com"},
	}
}

// leaf returns a property without nested properties.
func (s *schemaMaker) leaf() apiextv1.JSONSchemaProps {
	leaf := apiextv1.JSONSchemaProps{Description: s.sentence()}
	text := &apiextv1.JSONSchemaProps{Type: "string"}
	switch pick := s.draw.intBelow(16); {
	case pick < 5:
		leaf.Type = "string"
	case pick < 6:
		most := int64(63)
		leaf.Type, leaf.MaxLength, leaf.Pattern = "string", &most, "^[a-z0-9-]*$"
	case pick < 7:
		all := formats()
		leaf.Type, leaf.Format = "string", all[s.draw.intBelow(len(all))][0]
	case pick < 9:
		leaf.Type, leaf.Format = "integer", "int32"
	case pick < 10:
		least := float64(s.draw.intBelow(10))
		leaf.Type, leaf.Format, leaf.Minimum = "integer", "int64", &least
	case pick < 12:
		leaf.Type = "boolean"
	case pick < 13:
		leaf.Type, leaf.Enum = "string", enum([]string{title(s.word()) + "1", title(s.word()) + "2", title(s.word()) + "3"})
	case pick < 14:
		leaf.Type, leaf.Items = "array", &apiextv1.JSONSchemaPropsOrArray{Schema: text}
	case pick < 15:
		leaf.Type, leaf.AdditionalProperties = "object", &apiextv1.JSONSchemaPropsOrBool{Allows: true, Schema: text}
	default:
		leaf.XIntOrString = true
	}
	return leaf
}

func enum(values []string) []apiextv1.JSON {
	var all []apiextv1.JSON
	for _, value := range values {
		all = append(all, apiextv1.JSON{Raw: []byte(`"` + value + `"`)})
	}
	return all
}

// statusSchema returns a schema of the usual status: a phase, and conditions keyed by type.
func (s *schemaMaker) statusSchema() apiextv1.JSONSchemaProps {
	status, condition := s.objectSchema(), s.objectSchema()
	condition.Properties = map[string]apiextv1.JSONSchemaProps{
		"lastTransitionTime": {Type: "string", Format: "date-time", Description: s.sentence()},
	}
	for _, name := range []string{"type", "status", "reason", "message"} {
		condition.Properties[name] = apiextv1.JSONSchemaProps{Type: "string", Description: s.sentence()}
	}
	condition.Required = []string{"type", "status"}
	byType := "map"
	status.Properties = map[string]apiextv1.JSONSchemaProps{
		"phase":              {Type: "string", Description: s.sentence()},
		"observedGeneration": {Type: "integer", Format: "int64", Description: s.sentence()},
		"conditions": {Type: "array", Description: s.sentence(), XListType: &byType, XListMapKeys: []string{"type"},
			Items: &apiextv1.JSONSchemaPropsOrArray{Schema: &condition}},
	}
	return status
}

// checkCRDs returns an error if definitions would exceed etcd's request limit.
func (g *Generator) checkCRDs() error {
	if g.shape.CRDs == 0 {
		return nil
	}
	// Checking one definition is enough. Descriptions make up most of the bytes, so
	// all definitions are about equally long.
	text, err := json.Marshal(g.CRD(0))
	if err != nil {
		return fmt.Errorf("encode definition: %w", err)
	}
	if len(text) > maxObjectSize {
		return fmt.Errorf("properties is %d: a definition would have %d bytes, and the largest is %d, "+
			"because etcd takes requests of at most 1.5 MiB", g.shape.Properties, len(text), maxObjectSize)
	}
	return nil
}
