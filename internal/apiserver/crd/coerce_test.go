package crd

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	schemaobjectmeta "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	structuralpruning "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// structuralMaker makes random schemas, and objects for them. embeds and defaults say whether
// the schemas may have embedded resources and defaults.
type structuralMaker struct {
	*rand.Rand
	embeds, defaults bool
}

func (m structuralMaker) schema(depth int) *structuralschema.Structural {
	s := &structuralschema.Structural{Generic: structuralschema.Generic{Type: "object", Nullable: m.IntN(3) == 0}}
	if depth == 0 || m.IntN(5) == 0 {
		s.Type = "string"
		if m.defaults && m.IntN(2) == 0 {
			s.Default.Object = "default"
		}
		return s
	}
	switch m.IntN(4) {
	case 0:
		s.Type, s.Items = "array", m.schema(depth-1)
		return s
	case 1:
		s.AdditionalProperties = &structuralschema.StructuralOrBool{Structural: m.schema(depth - 1)}
		return s
	case 2:
		s.XEmbeddedResource, s.XPreserveUnknownFields = m.embeds, m.IntN(2) == 0
	}
	s.Properties = map[string]structuralschema.Structural{}
	for i := range 4 {
		s.Properties[fmt.Sprint("p", i)] = *m.schema(depth - 1)
	}
	return s
}

// object makes an object that follows a schema for the most part.
func (m structuralMaker) object(s *structuralschema.Structural) any {
	switch n := m.IntN(10); {
	case n == 0:
		return nil
	case n == 1:
		return "text"
	case s == nil || s.Type == "string":
		return int64(m.IntN(3))
	case s.Type == "array":
		return []any{m.object(s.Items), m.object(s.Items)}
	}
	made := map[string]any{}
	for key, property := range s.Properties {
		if m.IntN(4) > 0 {
			made[key] = m.object(&property)
		}
	}
	if s.AdditionalProperties != nil {
		made["any"] = m.object(s.AdditionalProperties.Structural)
	}
	if m.IntN(3) == 0 {
		made["unknown"] = nil
	}
	if s.XEmbeddedResource {
		made["kind"], made["metadata"] = m.object(nil), map[string]any{"name": "a", "labels": m.object(nil), "more": 1.5, "creationTimestamp": nil}
	}
	return made
}

// TestSkippedWalks checks that coercing and defaulting give the results of Kubernetes' walks
// over objects. The coercer skips walks that have nothing to do for a schema.
func TestSkippedWalks(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	kind := schema.GroupKind{Group: "a.example", Kind: "Thing"}
	changed := map[string]int{}
	for i := range 4000 {
		m := structuralMaker{Rand: random, embeds: i%2 == 0, defaults: i/2%2 == 0}
		root := &structuralschema.Structural{Properties: map[string]structuralschema.Structural{"spec": *m.schema(4)}}
		spec := root.Properties["spec"]
		c := coercer{
			schemas: schemaSet{kind: kind, byVersion: map[string]versionSchema{"v1": newVersionSchema(root)}, keepUnknown: i%5 == 0},
			stored:  i/4%2 == 0, strict: i/8%2 == 0,
		}
		before := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "a.example/v1", "kind": "Thing", "spec": m.object(&spec)}}
		got, want := before.DeepCopy(), before.DeepCopy()
		wantUnknown, wantErr := allWalks(&c, want.Object, root)
		gotUnknown, gotErr := c.applySchema(got, c.schemas.byVersion["v1"])
		// Kubernetes reports one of several errors, at random.
		if (gotErr == nil) != (wantErr == nil) || fmt.Sprint(gotUnknown) != fmt.Sprint(wantUnknown) {
			t.Fatalf("got %v, %v\nwant %v, %v", gotUnknown, gotErr, wantUnknown, wantErr)
		}
		if gotErr != nil {
			changed["failed"]++
			continue
		}
		wantSame(t, before, got, want)
		if !reflect.DeepEqual(before.Object, want.Object) {
			changed["coerced"]++
		}
		coerced := want.DeepCopy()
		structuraldefaulting.Default(want.Object, root)
		defaulter{schemas: c.schemas}.Default(got)
		wantSame(t, before, got, want)
		if !reflect.DeepEqual(coerced.Object, want.Object) {
			changed["defaulted"]++
		}
	}
	if t.Log(changed); changed["failed"] < 20 || changed["coerced"] < 500 || changed["defaulted"] < 100 {
		t.Error("too few objects had anything to coerce or to default")
	}
}

// allWalks coerces an object as Kubernetes does.
func allWalks(c *coercer, object map[string]any, s *structuralschema.Structural) (unknown []string, err error) {
	if !c.schemas.keepUnknown {
		unknown = structuralpruning.PruneWithOptions(object, s, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: c.strict})
		structuraldefaulting.PruneNonNullableNullsWithoutDefaults(object, s)
	}
	failed, paths := schemaobjectmeta.CoerceWithOptions(nil, object, s, false, schemaobjectmeta.CoerceOptions{
		DropInvalidFields: c.stored, ReturnUnknownFieldPaths: c.strict,
	})
	if failed != nil {
		return nil, failed
	}
	return append(unknown, paths...), nil
}

func wantSame(t *testing.T, before, got, want *unstructured.Unstructured) {
	t.Helper()
	if reflect.DeepEqual(got, want) {
		return
	}
	var text [3][]byte
	for i, u := range []*unstructured.Unstructured{before, got, want} {
		text[i], _ = json.Marshal(u.Object)
	}
	t.Fatalf("%s became\n%s\nwant\n%s", text[0], text[1], text[2])
}
