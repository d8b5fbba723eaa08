package crd

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// TestCompiledSizes compares estimates of memory with measurements. They need only be of the
// same order, since schemas differ.
func TestCompiledSizes(t *testing.T) {
	converters, err := conversion.NewCRConverterFactory(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{converters: converters, hasModels: true}
	with, without := wide(100), wide(100)
	for name, p := range specOf(without).Properties {
		p.XValidations = nil
		specOf(without).Properties[name] = p
	}
	for _, c := range []struct {
		what string
		full *fullDefinition
	}{{"with rules", with}, {"without rules", without}} {
		encoded, err := json.Marshal(c.full)
		if err != nil {
			t.Fatal(err)
		}
		size := int64(len(encoded))
		withoutDescriptions(c.full.Spec.Versions[0].Schema.OpenAPIV3Schema)
		schemas := func() *compiledSchemas {
			made, err := s.compileSchemas(c.full.DeepCopy(), schema.GroupKind{Group: "a.example", Kind: "Thing"})
			if err != nil {
				t.Fatal(err)
			}
			return made
		}
		compiled := schemas().byVersion["v1"].Structural
		wantSize(t, "schemas "+c.what, schemaFactor*size, func() any { return schemas() })
		wantSize(t, "types "+c.what, typesFactor*size, func() any {
			made, err := (&servedDefinition{server: s}).newWriterSet(c.full.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			return made
		})
		wantSize(t, "a writer "+c.what, writerFactor*size+rulesSize(compiled), func() any {
			p, err := partsOf(&c.full.DeepCopy().Spec.Versions[0])
			if err != nil {
				t.Fatal(err)
			}
			kind := schema.GroupVersionKind{Group: "a.example", Version: "v1", Kind: "Thing"}
			return customresource.NewStrategy(nil, true, kind, p.validator, p.statusValidator, compiled, p.status, p.scale, nil)
		})
	}
}

func specOf(full *fullDefinition) *apiextensionsv1.JSONSchemaProps {
	spec := full.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	return &spec
}

func wantSize(t *testing.T, what string, estimate int64, make func() any) {
	t.Helper()
	measured := perByte(20, 1, make)
	t.Logf("%s: %.0f bytes, estimated as %d", what, measured, estimate)
	if measured > 2*float64(estimate) || measured < float64(estimate)/3 {
		t.Errorf("%s takes %.0f bytes, which is not of the order of the estimate, %d", what, measured, estimate)
	}
}

// TestRowsAreSmall checks that a row takes some hundred bytes, however large its schema is.
func TestRowsAreSmall(t *testing.T) {
	share, i := interner{}, 0
	size := perByte(5000, 1, func() any {
		i++
		full := wide(3)
		full.Name, full.UID = fmt.Sprintf("things%d.a.example", i), uuid.NewUUID()
		names := &full.Spec.Names
		names.Plural, names.Kind = fmt.Sprintf("things%d", i), fmt.Sprintf("Thing%d", i)
		names.Singular, names.ListKind, names.ShortNames = names.Plural[:5], names.Kind+"List", []string{fmt.Sprintf("t%d", i)}
		full.Status.AcceptedNames, full.Status.StoredVersions = *names, []string{"v1"}
		d, err := share.row(stored(t, full, v1beta1.SchemeGroupVersion), 7)
		if err != nil {
			t.Fatal(err)
		}
		return d
	})
	t.Logf("a row takes %.0f bytes", size)
	if size > 1500 {
		t.Errorf("a row takes %.0f bytes", size)
	}
}

// perByte returns the bytes of memory that a value of make takes, divided by size. It
// measures the mean of some copies.
func perByte(copies, size int, make func() any) float64 {
	make() // the first one may allocate shared state
	var before, after runtime.MemStats
	values := slices.Repeat([]any{nil}, copies)
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range values {
		values[i] = make()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(values)
	return float64(int64(after.HeapAlloc)-int64(before.HeapAlloc)) / float64(copies*size)
}
