package crd

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionshelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/apiserver/crd/definitiontest"
)

// The names by which this package's tests know definitiontest's functions.
var (
	stored            = definitiontest.EncodeStored
	decoded           = definitiontest.DecodeStored
	randomDefinitions = definitiontest.Random
	wide              = definitiontest.Wide
)

// wantRow returns the row of a decoded definition, without digests.
func wantRow(full *fullDefinition) *Definition {
	d := &Definition{
		Name: full.Name, UID: full.UID, Revision: 7, Group: full.Spec.Group, Scope: full.Spec.Scope,
		Wanted: full.Spec.Names, Accepted: full.Status.AcceptedNames, StoredVersions: full.Status.StoredVersions,
		NamesAccepted: apiextensionshelpers.IsCRDConditionTrue(full, apiextensionsv1.NamesAccepted),
		Established:   apiextensionshelpers.IsCRDConditionTrue(full, apiextensionsv1.Established),
		Terminating:   apiextensionshelpers.IsCRDConditionTrue(full, apiextensionsv1.Terminating),
		Deleting:      full.DeletionTimestamp != nil, Webhook: full.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter,
		Unchecked:    full.Spec.PreserveUnknownFields || apiextensionshelpers.FindCRDCondition(full, apiextensionsv1.NonStructuralSchema) != nil,
		KeepsUnknown: full.Spec.PreserveUnknownFields,
	}
	if c := apiextensionshelpers.FindCRDCondition(full, apiextensionsv1.Established); c != nil {
		d.EstablishedAt = c.LastTransitionTime.Time
	}
	for _, v := range full.Spec.Versions {
		row := Version{Name: v.Name, Served: v.Served, Storage: v.Storage, Deprecated: v.Deprecated, DeprecationWarning: v.DeprecationWarning}
		row.Status, row.Scale = v.Subresources != nil && v.Subresources.Status != nil, v.Subresources != nil && v.Subresources.Scale != nil
		for _, f := range v.SelectableFields {
			row.SelectableFields = append(row.SelectableFields, f.JSONPath)
		}
		d.Versions = append(d.Versions, row)
	}
	return d
}

// withoutDigests returns a copy of a row without its digests.
func withoutDigests(d *Definition) *Definition {
	plain := *d
	plain.Spec, plain.Versions = 0, slices.Clone(d.Versions)
	for i := range plain.Versions {
		plain.Versions[i].Content, plain.Versions[i].Schema = 0, 0
	}
	return &plain
}

// TestRowsAreRead compares rows that are read from stored bytes with the definitions that
// Kubernetes decodes.
func TestRowsAreRead(t *testing.T) {
	t.Parallel()
	random := randomDefinitions(t)
	read, share := 0, interner{}
	same := conversion.EqualitiesOrDie(func(a, b time.Time) bool { return a.Equal(b) })
	for range 2000 {
		made := random()
		for _, gv := range []schema.GroupVersion{v1beta1.SchemeGroupVersion, apiextensionsv1.SchemeGroupVersion} {
			bytes := stored(t, made, gv)
			internal, full := decoded(t, bytes)
			row, err := share.row(bytes, 7)
			if errors.Is(err, errNotCanonical) {
				continue
			}
			read++
			if row, want := withoutDigests(row), wantRow(full); !same.DeepEqual(row, want) {
				t.Fatalf("row of\n%s\nis\n%+v\nwant\n%+v", bytes, row, want)
			}
			wantLabels, wantFields, err := customresourcedefinition.GetAttrs(internal)
			if err != nil {
				t.Fatal(err)
			}
			scan, ok := Attributes(bytes)
			if !ok || !same.DeepEqual(scan.Labels, wantLabels) || !reflect.DeepEqual(scan.Fields, wantFields) || string(scan.UID) != string(full.UID) {
				t.Fatalf("attributes of\n%s\nare %v %v, want %v %v", bytes, scan, ok, wantLabels, wantFields)
			}
		}
	}
	if read < 500 {
		t.Errorf("only %d definitions were read", read)
	}
}

// TestNotCanonicalRows has definitions that lack fields that Kubernetes fills in, or that
// are not canonical JSON. The row reader must refuse them, and must read a row once
// Kubernetes has encoded them.
func TestNotCanonicalRows(t *testing.T) {
	t.Parallel()
	full := wide(3)
	full.Name, full.UID = "things.a.example", "u"
	full.Status.StoredVersions = []string{"v1"}
	usual := string(stored(t, full, v1beta1.SchemeGroupVersion))
	want, err := interner{}.row([]byte(usual), 7)
	if err != nil {
		t.Fatalf("%v: %s", err, usual)
	}
	for _, c := range []struct{ old, new string }{
		{`"singular":"thing",`, ``}, {`"listKind":"ThingList"`, `"categories":[]`}, {`"conversion":{"strategy":"None"},`, ``},
		{`"scope":"Namespaced",`, ``}, {`"storedVersions":["v1"]`, `"storedVersions":[]`},
		{`"group":`, ` "group":`}, {`"group":`, `"\u0067roup":`}, {`{"kind":`, `{"status":{},"kind":`},
		{`"versions":[{"name":"v1","served":true,"storage":true}],`, ``},
	} {
		text := strings.Replace(usual, c.old, c.new, 1)
		if text == usual {
			t.Fatalf("%s is not in %s", c.old, usual)
		}
		if row, err := (interner{}).row([]byte(text), 7); !errors.Is(err, errNotCanonical) {
			t.Errorf("with %s for %s: %+v, %v", c.new, c.old, row, err)
		}
		internal, _ := decoded(t, []byte(text))
		row, err := interner{}.row(stored(t, internal, v1beta1.SchemeGroupVersion), 7)
		if err != nil {
			t.Errorf("with %s for %s, encoded again by Kubernetes: %v", c.new, c.old, err)
		} else if row.Group != want.Group || len(row.Versions) != 1 || row.Versions[0].Name != "v1" {
			t.Errorf("with %s for %s: %+v", c.new, c.old, row)
		}
	}
	for n := range usual {
		if row, err := (interner{}).row([]byte(usual[:n]), 7); err == nil && n < len(usual)-1 {
			t.Fatalf("the first %d bytes of %s make a row: %+v", n, usual, row)
		}
	}
}

// TestDigests sees that the digest of a spec changes with the spec and with nothing else,
// and that of a version whatever other versions have.
func TestDigests(t *testing.T) {
	t.Parallel()
	made := wide(5)
	made.Name, made.UID, made.Status.StoredVersions = "things.a.example", "u", []string{"v1"}
	second := made.Spec.Versions[0].DeepCopy()
	second.Name, second.Storage = "v2", false
	made.Spec.Versions = append(made.Spec.Versions, *second)
	row := func(change func(*fullDefinition)) *Definition {
		t.Helper()
		full := made.DeepCopy()
		change(full)
		d, err := interner{}.row(stored(t, full, v1beta1.SchemeGroupVersion), 7)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := row(func(*fullDefinition) {})
	for what, change := range map[string]func(*fullDefinition){
		"status": func(d *fullDefinition) { d.Status.AcceptedNames = d.Spec.Names },
		"labels": func(d *fullDefinition) { d.Labels = map[string]string{"a": "b"} },
		"empty": func(d *fullDefinition) {
			d.Spec.Names.ShortNames, d.Spec.Versions[0].SelectableFields = []string{}, nil
		},
	} {
		if d := row(change); d.Spec != first.Spec {
			t.Errorf("changing %s changed the hash of the spec", what)
		}
	}
	seen := map[uint64]string{first.Spec: "nothing"}
	for what, change := range map[string]func(*fullDefinition){
		"names":       func(d *fullDefinition) { d.Spec.Names.Categories = []string{"all"} },
		"conversion":  func(d *fullDefinition) { d.Spec.PreserveUnknownFields = true },
		"served":      func(d *fullDefinition) { d.Spec.Versions[1].Served = false },
		"description": func(d *fullDefinition) { d.Spec.Versions[1].Schema.OpenAPIV3Schema.Description = "other" },
		"status": func(d *fullDefinition) {
			d.Spec.Versions[1].Subresources = &apiextensionsv1.CustomResourceSubresources{}
		},
		"columns": func(d *fullDefinition) {
			d.Spec.Versions[1].AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{{Name: "A", Type: "string", JSONPath: ".a"}}
		},
		"fields": func(d *fullDefinition) {
			d.Spec.Versions[1].SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.field1"}}
		},
	} {
		d := row(change)
		if other := seen[d.Spec]; other != "" {
			t.Errorf("changing %s gives the same hash of the spec as changing %s", what, other)
		}
		seen[d.Spec] = what
		if d.Versions[0].Content != first.Versions[0].Content {
			t.Errorf("changing %s changed the first version's content hash", what)
		}
		if v2 := what != "names" && what != "conversion"; v2 == (d.Versions[1].Content == first.Versions[1].Content) {
			t.Errorf("changing %s changed the second version's content hash: %v", what, !v2)
		}
	}
}

// BenchmarkRow reads the row of a definition with a hundred properties.
func BenchmarkRow(b *testing.B) {
	full := wide(100)
	full.Name, full.UID, full.Status.StoredVersions = "things.a.example", "u", []string{"v1"}
	text := stored(b, full, v1beta1.SchemeGroupVersion)
	b.SetBytes(int64(len(text)))
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		share := interner{}
		for b.Loop() {
			if _, err := share.row(text, 7); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("attributes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := Attributes(text); !ok {
				b.Fatal("not canonical")
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			decoded(b, text)
		}
	})
}
