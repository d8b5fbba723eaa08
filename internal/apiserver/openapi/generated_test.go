package openapi_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// TestGeneratedIsUpstreams publishes generated definitions with everything that schemas
// can have, and compares the documents with Kubernetes'. Nearly all definitions that are
// as Kubernetes wants them must be written from their text.
func TestGeneratedIsUpstreams(t *testing.T) {
	const definitions = 60
	for _, test := range []struct {
		name string
		// strangePerMille is passed to the generator.
		strangePerMille int
		// fromText is how many percent at least are written from their text.
		fromText int
	}{{"regular", 0, 90}, {"strange", 20, 0}} {
		t.Run(test.name, func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			g := generator{rand.New(rand.NewPCG(seed, 0)), test.strangePerMille}
			var all []*definition
			for i := range definitions {
				all = append(all, g.definition(i))
			}
			p := newPair(t, all, newBuiltin("apps", "deployments", "Deployment"), newBuiltin("extensions", "definitions", "Definition"))
			eventually(t, p.wrong)
			if test.strangePerMille == 0 {
				p.compareMessages()
			}
			for _, d := range all {
				if refused(t, d) && p.catalog.decoded[d.Name] == 0 {
					t.Errorf("%s is written from its text, and Kubernetes has something against it", d.Name)
				}
			}
			fromText := 100 - 100*len(p.catalog.decoded)/definitions
			t.Logf("%d %% written from their text", fromText)
			if fromText < test.fromText {
				t.Errorf("only %d %% of the definitions are written from their text", fromText)
			}
		})
	}
}

// refused reports whether Kubernetes finds errors in the schemas of a definition.
func refused(t *testing.T, d *definition) bool {
	t.Helper()
	for _, v := range d.Spec.Versions {
		internal := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, internal, nil); err != nil {
			t.Fatal(err)
		}
		made, err := structuralschema.NewStructural(internal)
		if v.Served && (err != nil || len(structuralschema.ValidateStructural(nil, made)) > 0) {
			return true
		}
	}
	return false
}
