package load

import (
	"bytes"
	"testing"

	"github.com/millrace/millrace/test/support/benchtest"
)

func TestCountItems(t *testing.T) {
	pb := string(benchtest.ProtobufList(3))
	for _, c := range []struct {
		name, body string
		kind       BodyKind
		want       int // -1: an error
	}{
		{"list", `{"kind":"PodList","metadata":{"items":[1]},"items":[{"a":[1]},{}]}`, JSONList, 2},
		{"items first", `{"items":[{}],"kind":"PodList"}` + "\n", JSONList, 1},
		{"empty list", `{"items":[]}`, JSONList, 0},
		{"null items", `{"items":null}`, JSONList, -1},
		{"no items", `{"kind":"PodList"}`, JSONList, -1},
		{"broken off", `{"items":[{},{}`, JSONList, -1},
		{"end missing", `{"items":[{},{}]`, JSONList, -1},
		{"bad item", `{"items":[{},{"a"}]}`, JSONList, -1},
		{"something behind", `{"items":[]}{}`, JSONList, -1},
		{"no object", `[]`, JSONList, -1},
		{"nothing", ``, JSONList, -1},
		{"table", `{"columnDefinitions":[{}],"rows":[{},{},{}]}`, JSONTable, 3},
		{"list as table", `{"items":[]}`, JSONTable, -1},
		{"object", `{"kind":"Pod","metadata":{"name":"x"}}`, JSONObject, 1},
		{"status", `{"kind":"Status","metadata":{}}`, JSONObject, -1},
		{"protobuf", pb, ProtobufList, 3},
		{"empty protobuf", string(benchtest.ProtobufList(0)), ProtobufList, 0},
		{"protobuf broken off in an item", pb[:len(pb)-100], ProtobufList, -1},
		{"protobuf broken off in the envelope", pb[:len(pb)-1], ProtobufList, -1},
		{"protobuf without magic", pb[4:], ProtobufList, -1},
		{"protobuf without object", "k8s\x00", ProtobufList, -1},
		{"protobuf item longer than list", "k8s\x00\x12\x03\x12\x05abcde", ProtobufList, -1},
	} {
		got, err := countItems(bytes.NewReader([]byte(c.body)), c.kind)
		switch {
		case c.want < 0 && err == nil:
			t.Errorf("%s: no error", c.name)
		case c.want >= 0 && (err != nil || got != c.want):
			t.Errorf("%s: got %d, %v, want %d", c.name, got, err, c.want)
		}
	}
}

func FuzzCountProtobuf(f *testing.F) {
	f.Add(benchtest.ProtobufList(2))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = countItems(bytes.NewReader(body), ProtobufList) // must return, and not panic
	})
}
