package crd

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	schemaobjectmeta "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apimachinery/pkg/runtime"
)

// metadataMaker makes random metadata. Most of it is as it is stored, and some is
// malformed.
type metadataMaker struct {
	*rand.Rand
	// malformed is how many of 100 values are not of the type that they should be.
	malformed int
}

func (m metadataMaker) pick(of ...any) any { return of[m.IntN(len(of))] }

// value returns should most often, and a value of another type otherwise.
func (m metadataMaker) value(should any) any {
	if m.IntN(100) >= m.malformed {
		return should
	}
	return m.pick(nil, "", "text", "\xff", int64(0), int64(3), 1.0, 1.5, true, []any{}, []any(nil), map[string]any{}, map[string]any(nil),
		map[string]any{"a": "b"}, []any{"a"}, []any{nil}, "0001-01-01T00:00:00Z", "2026-02-03t04:05:06Z", "2026-02-30T04:05:06Z", "2026-02-03T04:05:06.5Z",
		"2026-02-03T04:05:06+01:00", map[string]any{"a": map[string]any{"b": int64(1)}}, map[string]any{"\xff": map[string]any{}})
}

// object returns an object with some of the fields, and rarely with an unknown one.
func (m metadataMaker) object(fields map[string]any) any {
	made := map[string]any{}
	for name, should := range fields {
		if m.IntN(3) > 0 {
			made[name] = m.value(should)
		}
	}
	if m.IntN(100) < m.malformed {
		made["more"] = m.value("text")
	}
	return m.value(made)
}

func (m metadataMaker) metadata() any {
	stamp := m.pick("2026-02-03T04:05:06Z", "1999-12-31T23:59:59Z", "0000-01-01T00:00:00Z")
	texts := map[string]any{"a": m.value("b"), "c.example/d": m.value("")}
	owner := map[string]any{"apiVersion": m.value("v1"), "kind": m.value("K"), "name": m.value("n"), "uid": m.value("")}
	if m.IntN(2) > 0 {
		owner["controller"] = m.value(true)
	}
	if m.IntN(100) < m.malformed {
		delete(owner, "uid")
	}
	fields := map[string]any{"f:spec": map[string]any{".": map[string]any{}, "f:<a>": m.value(map[string]any{}), `k:{"name":"a"}`: map[string]any{}}}
	manager := func() any {
		return m.object(map[string]any{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
			"subresource": "status", "time": stamp, "fieldsV1": fields})
	}
	return m.object(map[string]any{
		"name": "a", "generateName": "a-", "namespace": "b", "selfLink": "/a", "uid": "1", "resourceVersion": "12", "generation": int64(2),
		"creationTimestamp": stamp, "deletionTimestamp": stamp, "deletionGracePeriodSeconds": int64(0),
		"labels": texts, "annotations": texts, "finalizers": []any{m.value("a/b"), "c"},
		"ownerReferences": []any{m.value(owner)}, "managedFields": []any{manager(), manager()},
	})
}

// TestMetadataRoundTrips checks that Kubernetes leaves metadata unchanged if
// metadataRoundTrips is true for it, and that it is true for all well-formed metadata.
func TestMetadataRoundTrips(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	count := map[bool]int{}
	for i := range 30_000 {
		m := metadataMaker{random, []int{0, 2, 10}[i%3]}
		metadata := m.metadata()
		roundTrips := metadataRoundTrips(metadata)
		count[roundTrips]++
		if m.malformed == 0 && !roundTrips {
			t.Fatalf("%#v does not round-trip", metadata)
		}
		if !roundTrips {
			continue
		}
		u := map[string]any{"metadata": runtime.DeepCopyJSONValue(metadata)}
		meta, _, unknown, err := schemaobjectmeta.GetObjectMetaWithOptions(u, schemaobjectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
		if err != nil || len(unknown) > 0 {
			t.Fatalf("%#v: %v, unknown: %v", metadata, err, unknown)
		}
		if err := schemaobjectmeta.SetObjectMeta(u, meta); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(u["metadata"], metadata) {
			got, _ := json.Marshal(u["metadata"])
			want, _ := json.Marshal(metadata)
			t.Fatalf("Kubernetes makes of\n%s\nthis:\n%s", want, got)
		}
	}
	if t.Log(count); count[true] < 12_000 || count[false] < 5_000 {
		t.Error("too few round-trip, or too few do not")
	}
}
