package bench

import (
	"bytes"
	"testing"
)

func TestCountItems(t *testing.T) {
	pb := string(protobufList(3))
	for _, c := range []struct {
		name, body string
		kind       bodyKind
		want       int // -1: an error
	}{
		{"list", `{"kind":"PodList","metadata":{"items":[1]},"items":[{"a":[1]},{}]}`, bodyJSONList, 2},
		{"items first", `{"items":[{}],"kind":"PodList"}` + "\n", bodyJSONList, 1},
		{"empty list", `{"items":[]}`, bodyJSONList, 0},
		{"null items", `{"items":null}`, bodyJSONList, -1},
		{"no items", `{"kind":"PodList"}`, bodyJSONList, -1},
		{"broken off", `{"items":[{},{}`, bodyJSONList, -1},
		{"end missing", `{"items":[{},{}]`, bodyJSONList, -1},
		{"bad item", `{"items":[{},{"a"}]}`, bodyJSONList, -1},
		{"something behind", `{"items":[]}{}`, bodyJSONList, -1},
		{"no object", `[]`, bodyJSONList, -1},
		{"nothing", ``, bodyJSONList, -1},
		{"table", `{"columnDefinitions":[{}],"rows":[{},{},{}]}`, bodyJSONTable, 3},
		{"list as table", `{"items":[]}`, bodyJSONTable, -1},
		{"object", `{"kind":"Pod","metadata":{"name":"x"}}`, bodyJSONObject, 1},
		{"status", `{"kind":"Status","metadata":{}}`, bodyJSONObject, -1},
		{"protobuf", pb, bodyProtobufList, 3},
		{"empty protobuf", string(protobufList(0)), bodyProtobufList, 0},
		{"protobuf broken off in an item", pb[:len(pb)-100], bodyProtobufList, -1},
		{"protobuf broken off in the envelope", pb[:len(pb)-1], bodyProtobufList, -1},
		{"protobuf without magic", pb[4:], bodyProtobufList, -1},
		{"protobuf without object", "k8s\x00", bodyProtobufList, -1},
		{"protobuf item longer than list", "k8s\x00\x12\x03\x12\x05abcde", bodyProtobufList, -1},
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
	f.Add(protobufList(2))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = countItems(bytes.NewReader(body), bodyProtobufList) // must end and not panic
	})
}
