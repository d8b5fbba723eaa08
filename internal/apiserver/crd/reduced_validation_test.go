package crd

import (
	"context"
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/millrace/millrace/internal/apiserver/crd/definitioncodec"
)

// countingStrategy counts the validations of the strategy that it embeds.
type countingStrategy struct {
	rest.RESTCreateStrategy
	calls int
}

func (c *countingStrategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	c.calls++
	return c.RESTCreateStrategy.Validate(ctx, obj)
}

// schemaMaker makes random schemas, most of them valid.
type schemaMaker struct {
	*rand.Rand
	// strange are random schemas with values in all fields.
	strange []*apiextensions.JSONSchemaProps
}

func (m *schemaMaker) object(depth int) apiextensions.JSONSchemaProps {
	s := apiextensions.JSONSchemaProps{Type: "object", Description: "d", Properties: map[string]apiextensions.JSONSchemaProps{}}
	for range 1 + m.Intn(4) {
		s.Properties[string(rune('a'+m.Intn(6)))] = m.any(depth - 1)
	}
	return s
}

func (m *schemaMaker) any(depth int) apiextensions.JSONSchemaProps {
	if depth > 0 && m.Intn(2) == 0 {
		return m.object(depth)
	}
	text := apiextensions.JSONSchemaProps{Type: "string"}
	switch m.Intn(12) {
	case 0:
		one, most := apiextensions.JSON("one"), int64(10)
		return apiextensions.JSONSchemaProps{Type: "string", Enum: []apiextensions.JSON{one, "two"}, Default: &one, MaxLength: &most}
	case 1:
		return apiextensions.JSONSchemaProps{Type: "string", Pattern: []string{"^a*$", "(", "^b?$"}[m.Intn(3)], Format: "date-time"}
	case 2:
		return apiextensions.JSONSchemaProps{XIntOrString: true, Nullable: true}
	case 3:
		return apiextensions.JSONSchemaProps{XIntOrString: true, AnyOf: []apiextensions.JSONSchemaProps{{Type: "integer"}, {Type: "string"}}}
	case 4:
		item := m.any(depth - 1)
		return apiextensions.JSONSchemaProps{Type: "array", Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &item}}
	case 5:
		value := m.any(depth - 1)
		s := apiextensions.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: &value}}
		if m.Intn(8) == 0 {
			s.Properties = map[string]apiextensions.JSONSchemaProps{"a": text}
		}
		return s
	case 6:
		byKey, item := "map", m.object(1)
		item.Properties["key"], item.Required = text, []string{"key"}
		return apiextensions.JSONSchemaProps{Type: "array", XListType: &byKey, XListMapKeys: []string{"key"},
			Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &item}}
	case 7:
		s := m.object(1)
		s.Properties["n"] = apiextensions.JSONSchemaProps{Type: "integer"}
		s.XValidations = apiextensions.ValidationRules{{Rule: "!has(self.n) || self.n > 0"}}
		return s
	case 8:
		keep := true
		return apiextensions.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep, XEmbeddedResource: m.Intn(2) == 0}
	case 9:
		s := m.object(1)
		s.Properties["x"] = text
		s.AnyOf = []apiextensions.JSONSchemaProps{{Required: []string{"x"}}, {Properties: map[string]apiextensions.JSONSchemaProps{"x": {Pattern: "y"}}}}
		return s
	}
	return apiextensions.JSONSchemaProps{Type: []string{"string", "number", "integer", "boolean"}[m.Intn(4)], Nullable: m.Intn(3) == 0}
}

// addStrange sets a field somewhere in a schema to that of a strange one.
func (m *schemaMaker) addStrange(s *apiextensions.JSONSchemaProps) {
	for name, p := range s.Properties {
		if m.Intn(2) == 0 {
			m.addStrange(&p)
			s.Properties[name] = p
			return
		}
	}
	switch {
	case s.Items != nil && s.Items.Schema != nil && m.Intn(2) == 0:
		m.addStrange(s.Items.Schema)
	case m.Intn(8) == 0 && len(s.Properties) > 0:
		s.Properties[[]string{"apiVersion", "kind", "metadata"}[m.Intn(3)]] = m.any(2)
	default:
		from, to := reflect.ValueOf(m.strange[m.Intn(len(m.strange))]).Elem(), reflect.ValueOf(s).Elem()
		i := m.Intn(to.NumField())
		to.Field(i).Set(from.Field(i))
	}
}

func (m *schemaMaker) root() *apiextensions.JSONSchemaProps {
	s := m.object(4)
	if m.Intn(2) == 0 {
		s.Properties["metadata"] = apiextensions.JSONSchemaProps{Type: "object"}
	}
	if m.Intn(2) == 0 {
		m.addStrange(&s)
	}
	return &s
}

// field returns a selectable field. Most of the time its path exists in the schema.
func (m *schemaMaker) field(s *apiextensions.JSONSchemaProps) (f apiextensions.SelectableField) {
	for m.Intn(16) > 0 {
		names := slices.Sorted(maps.Keys(s.Properties))
		if len(names) == 0 {
			return f
		}
		name := names[m.Intn(len(names))]
		next := s.Properties[name]
		f.JSONPath += "." + name
		s = &next
	}
	f.JSONPath += []string{".none", "[0]", "['a']"}[m.Intn(3)]
	return f
}

// addVersions moves the schema into the first version, and adds a second version whose
// schema is the same, another one, or differs by a trivial property.
func (m *schemaMaker) addVersions(full *apiextensions.CustomResourceDefinition) {
	first := full.Spec.Validation
	full.Spec.Versions[0].Schema, full.Spec.Versions[0].SelectableFields = first, full.Spec.SelectableFields
	full.Spec.Validation, full.Spec.SelectableFields = nil, nil
	other := *full.Spec.Versions[0].DeepCopy()
	other.Name, other.Storage = "v2", false
	if other.Schema.OpenAPIV3Schema.Properties == nil {
		return
	}
	switch schema := other.Schema.OpenAPIV3Schema; m.Intn(4) {
	case 0:
	case 1:
		other.Schema.OpenAPIV3Schema = m.root()
	case 2:
		schema.Properties["more"] = apiextensions.JSONSchemaProps{Type: "string"}
		other.SelectableFields = []apiextensions.SelectableField{m.field(schema)}
	default:
		schema.Properties["more"] = apiextensions.JSONSchemaProps{Type: "string"}
	}
	full.Spec.Versions = append(full.Spec.Versions, other)
}

// errorTexts returns the texts of validation errors in order. Kubernetes panics if a
// schema with selectable fields is not structural; the panic's text is returned then.
func errorTexts(ctx context.Context, s rest.RESTCreateStrategy, full *apiextensions.CustomResourceDefinition) (all []string) {
	defer func() {
		if r := recover(); r != nil {
			all = []string{fmt.Sprint(r)}
		}
	}()
	for _, err := range s.Validate(ctx, full) {
		all = append(all, err.Error())
	}
	slices.Sort(all)
	return all
}

// TestReducedDefinitionsAreValidAsWhole compares the errors of reduced validation with
// those of Kubernetes' validation, for random definitions. Valid definitions must be
// validated once.
func TestReducedDefinitionsAreValidAsWhole(t *testing.T) {
	t.Parallel()
	random, seed := randomDefinitions(t), rand.Int63()
	t.Logf("seed of schemas %d", seed)
	m := &schemaMaker{Rand: rand.New(rand.NewSource(seed))}
	for len(m.strange) < 1000 {
		for _, schema := range definitioncodec.Schemas(random()) {
			if *schema != nil && (*schema).OpenAPIV3Schema != nil {
				m.strange = append(m.strange, (*schema).OpenAPIV3Schema)
			}
		}
	}
	whole := customresourcedefinition.NewStrategy(apiextensionsapiserver.Scheme)
	reducedOnly, selectable, twice, invalid := 0, 0, 0, 0
	for i := range 2000 {
		full := wide(0)
		full.Name = "things.a.example"
		made, _ := decoded(t, stored(t, full, v1beta1.SchemeGroupVersion))
		made.Spec.Validation = &apiextensions.CustomResourceValidation{OpenAPIV3Schema: m.root()}
		if m.Intn(3) == 0 {
			made.Spec.SelectableFields = []apiextensions.SelectableField{m.field(made.Spec.Validation.OpenAPIV3Schema)}
		}
		if i%4 == 0 {
			m.addVersions(made)
		}
		whole.PrepareForCreate(t.Context(), made)
		want := errorTexts(t.Context(), whole, made)
		strategy := &countingStrategy{RESTCreateStrategy: whole}
		before := made.DeepCopy()
		got := errorTexts(t.Context(), reducedValidation{strategy}, made)
		if !slices.Equal(got, want) {
			t.Fatalf("found\n%s\nwant\n%s\nof\n%+v", strings.Join(got, "\n"), strings.Join(want, "\n"), made.Spec)
		}
		if !reflect.DeepEqual(made, before) {
			t.Fatalf("changed %+v\nto %+v", before.Spec, made.Spec)
		}
		switch {
		case len(want) > 0:
			invalid++
		case strategy.calls == 1:
			reducedOnly++
			if len(made.Spec.SelectableFields) > 0 {
				selectable++
			}
		default:
			twice++
		}
	}
	sums := fmt.Sprintf("%d validated reduced only, %d of them with selectable fields, %d validated twice, %d invalid", reducedOnly, selectable, twice, invalid)
	t.Log(sums)
	if reducedOnly < 500 || selectable < 20 || twice > 0 || invalid < 200 {
		t.Error(sums)
	}
}
