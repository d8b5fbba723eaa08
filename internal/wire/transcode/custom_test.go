package transcode_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/millrace/millrace/internal/wire/transcode"
)

var widgets = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

// customLane sends custom resources. change is what Kubernetes does to an object on its way
// out, besides setting the revision.
type customLane struct {
	proofs     *transcode.Proofs
	transcoder *transcode.Transcoder
	log        strings.Builder
	change     func(object map[string]any)
	encoded    int
}

func newCustomLane(sample int, change func(map[string]any)) *customLane {
	l := &customLane{change: change}
	l.proofs = transcode.NewProofs(transcode.Config{Sample: sample, Logger: slog.New(slog.NewTextHandler(&l.log, nil))})
	l.transcoder = transcode.New(transcode.NewCustomKind(widgets), transcode.ObjectJSON, "widgets", l.proofs, nil)
	return l
}

func widget(change func(object, metadata, spec map[string]any)) map[string]any {
	metadata := map[string]any{"name": "a", "namespace": "b", "uid": "c", "generation": 1, "creationTimestamp": "2026-01-02T03:04:05Z"}
	spec := map[string]any{"size": 3, "names": []any{"a", "b"}, "nested": map[string]any{"on": true}}
	object := map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": spec}
	change(object, metadata, spec)
	return object
}

func encoded(t *testing.T, object any) string {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

// wanted is what Kubernetes sends for stored JSON.
func (l *customLane) wanted(t *testing.T, stored string) string {
	t.Helper()
	want, err := l.encode([]byte(stored))
	if err != nil {
		t.Fatal(err)
	}
	return string(want)
}

var errNoMetadata = errors.New("no metadata")

// encode decodes stored JSON as Kubernetes does, and encodes it.
func (l *customLane) encode(stored []byte) ([]byte, error) {
	var object map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(stored, &object); err != nil {
		return nil, err
	}
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return nil, errNoMetadata
	}
	metadata["resourceVersion"] = "42"
	l.change(object)
	text, err := json.Marshal(object)
	return append(text, '\n'), err
}

func (l *customLane) send(t *testing.T, stored string) string {
	t.Helper()
	want := l.wanted(t, stored)
	got, err := l.transcoder.Append(nil, storedEntry([]byte(stored)), func(dst []byte) ([]byte, error) {
		l.encoded++
		return append(dst, want...), nil
	})
	if err != nil || string(got) != want {
		t.Fatalf("got %s, %v, want %s", got, err, want)
	}
	return want
}

func unchanged(map[string]any) {}

// TestCustomResources sends each object twice. The second is not encoded.
func TestCustomResources(t *testing.T) {
	for name, change := range map[string]func(object, metadata, spec map[string]any){
		"usual": func(_, _, _ map[string]any) {},
		"texts": func(_, _, spec map[string]any) {
			spec["text"] = "<&> \u2028\u2029 \" \\ / \b\f\n\r\t \x01 é 漢 \U0001f600"
		},
		"empty": func(_, _, spec map[string]any) {
			spec["a"], spec["b"], spec["c"], spec["d"] = "", []any{}, map[string]any{}, nil
		},
		"numbers": func(_, _, spec map[string]any) {
			spec["n"] = []any{0, -1, 1.5, -2.5e-9, 3e21, int64(999999999999999999)}
		},
		"metadata": func(_, metadata, _ map[string]any) {
			metadata["labels"], metadata["annotations"] = map[string]any{"a": "b"}, map[string]any{"c/d": `{"x":1}`}
			metadata["ownerReferences"] = []any{map[string]any{"name": "a"}, map[string]any{"name": "b"}}
			metadata["managedFields"] = []any{map[string]any{"time": "2026-01-02T03:04:05Z", "fieldsV1": map[string]any{"f:spec": map[string]any{".": map[string]any{}}}}}
		},
		"fields beside the spec": func(object, _, _ map[string]any) {
			object["data"], object["status"] = map[string]any{"metadata": 1}, "x"
		},
	} {
		l := newCustomLane(rarely, unchanged)
		stored := encoded(t, widget(change))
		l.send(t, stored)
		if l.send(t, stored); l.encoded != 1 {
			t.Errorf("%s: encoded %d times, %+v", name, l.encoded, l.proofs.Counts())
		}
	}
}

// TestOddCustomResources sends stored bytes that are left to Kubernetes.
func TestOddCustomResources(t *testing.T) {
	const usual = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","uid":"b"},"spec":{"n":1}}`
	l := newCustomLane(rarely, unchanged)
	l.send(t, usual)
	for _, change := range [][2]string{
		{`{"apiVersion"`, ` {"apiVersion"`}, {`"n":1`, `"n": 1`}, {`"n":1`, `"n":1.0`}, {`"n":1`, `"n":-0`}, {`"n":1`, `"n":1e2`}, {`"n":1`, `"n":12345678901234567890`},
		{`"n":1`, `"n":"\u0041"`}, {`"n":1`, `"n":"\/"`}, {`"n":1`, `"n":"<"`}, {`"n":1`, `"n":"\u003C"`}, {`"n":1`, `"n":"\ud83d\ude00"`}, {`"n":1`, "\"n\":\"\u2028\""},
		{`"n":1`, "\"n\":\"\xff\""}, {`"n":1`, `"n":1,"m":2`}, {`"n":1`, `"\u003c":1`}, {"example.com/v1", "example.com/v2"}, {"Widget", "Other"}, {`"uid":"b"`, `"resourceVersion":"7","uid":"b"`}, {`,"uid":"b"`, ``},
		{`"name":"a"`, `"labels":{"a":1},"name":"a"`}, {`"metadata":{"name":"a","uid":"b"}`, `"metadata":{"uid":"b","name":"a"}`},
	} {
		stored := strings.Replace(usual, change[0], change[1], 1)
		before := l.proofs.Counts().Declined
		if l.send(t, stored); l.proofs.Counts().Declined != before+1 {
			t.Errorf("not declined: %s", stored)
		}
	}
	for cut := range len(usual) {
		got, err := l.transcoder.Append(nil, storedEntry([]byte(usual[:cut])), func(dst []byte) ([]byte, error) { return append(dst, "encoded"...), nil })
		if err != nil || string(got) != "encoded" {
			t.Errorf("%d bytes were transcoded to %q, %v", cut, got, err)
		}
	}
}

// TestWhatSchemasDoToCustomResources prunes a field, sets a default and drops empty labels:
// objects of one fingerprint are all changed or all not.
func TestWhatSchemasDoToCustomResources(t *testing.T) {
	l := newCustomLane(1, func(object map[string]any) {
		spec, _ := object["spec"].(map[string]any)
		delete(spec, "unknown")
		if size, ok := spec["size"]; !ok || size == nil {
			spec["size"] = 3
		}
		metadata := object["metadata"].(map[string]any)
		if labels, ok := metadata["labels"].(map[string]any); ok && len(labels) == 0 {
			delete(metadata, "labels")
		}
		if metadata["generation"] == int64(0) {
			delete(metadata, "generation")
		}
		if at := metadata["creationTimestamp"]; at != "2026-01-02T03:04:05Z" && at != "2025-12-31T23:59:59Z" {
			metadata["creationTimestamp"] = nil
		}
	})
	r := rand.New(rand.NewPCG(1, 2))
	for range 4000 {
		l.send(t, encoded(t, widget(func(_, metadata, spec map[string]any) {
			pick := func(in map[string]any, name string, values ...any) {
				if i := r.IntN(len(values) + 2); i < len(values) {
					in[name] = values[i]
				} else if i == len(values) {
					delete(in, name)
				}
			}
			pick(spec, "unknown", 1)
			pick(spec, "size", nil, 5)
			pick(spec, "names", []any{}, []any{"x"}, []any{"y", "z", "z"})
			pick(metadata, "labels", map[string]any{}, map[string]any{fmt.Sprint("k", r.IntN(9)): "v"})
			pick(metadata, "generation", 0, 7)
			pick(metadata, "creationTimestamp", "2025-12-31T23:59:59Z", "2025-12-31T23:59:59+01:00", "0001-01-01T00:00:00Z")
		})))
	}
	if log := l.log.String(); strings.Contains(log, "ERROR") {
		t.Error(log)
	}
	if c := l.proofs.Counts(); c.Compared < 200 || c.Refuted < 500 {
		t.Errorf("%+v", c)
	}
}

// TestCustomKindsWithKeysOfTheirUsers gives each object a fingerprint of its own. The form is
// given up, and another one is not.
func TestCustomKindsWithKeysOfTheirUsers(t *testing.T) {
	for ownKeys, wantEncoded := range map[bool]bool{true: true, false: false} {
		l := newCustomLane(rarely, unchanged)
		for i := range 3000 {
			l.send(t, encoded(t, widget(func(_, metadata, spec map[string]any) {
				metadata["annotations"] = map[string]any{fmt.Sprint("a", i): "b"}
				if ownKeys {
					maps.Copy(spec, map[string]any{fmt.Sprint("key", i): "v"})
				}
			})))
		}
		before := l.proofs.Counts()
		l.encoded = 0
		l.send(t, encoded(t, widget(func(_, metadata, _ map[string]any) { metadata["annotations"] = map[string]any{"x": "y"} })))
		if after := l.proofs.Counts(); l.encoded != 1 && wantEncoded || l.encoded != 0 && !wantEncoded || wantEncoded && after != before {
			t.Errorf("own keys %v: %d encoded, %+v", ownKeys, l.encoded, after)
		}
	}
}

// FuzzCustom feeds JSON: what is transcoded is what decoding and encoding would give.
func FuzzCustom(f *testing.F) {
	for _, text := range []string{
		`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","uid":"b"},"spec":{"n":[1,-2,1.5,1e+21,"\u003c\n\u2028é"],"x":null,"y":{},"z":[]}}`,
		`{"apiVersion":"example.com/v1","data":{"a":"b"},"kind":"Widget","metadata":{"annotations":{"a":"b"},"creationTimestamp":"2026-01-02T03:04:05Z","uid":"b"}}`,
	} {
		f.Add([]byte(text))
	}
	l := newCustomLane(1, unchanged)
	f.Fuzz(func(t *testing.T, stored []byte) {
		_, err := l.transcoder.Append(nil, storedEntry(stored), func(dst []byte) ([]byte, error) {
			want, err := l.encode(stored)
			return append(dst, want...), err
		})
		if d := l.proofs.Counts().Last; d != nil {
			t.Fatalf("%q is written differently, %v", stored, err)
		}
	})
}
