package encode

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

func envelope(raw []byte) []byte {
	b := append([]byte{}, protobufMagic...)
	b = protowire.AppendTag(b, 1, protowire.BytesType)
	b = protowire.AppendBytes(b, []byte("type"))
	b = protowire.AppendTag(b, unknownRaw, protowire.BytesType)
	b = protowire.AppendBytes(b, raw)
	b = protowire.AppendTag(b, 4, protowire.BytesType)
	return protowire.AppendBytes(b, nil)
}

func field(number protowire.Number, content string) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), []byte(content))
}

func TestFramingTakesListsApart(t *testing.T) {
	meta := field(1, "meta")
	for name, c := range map[string]struct {
		framing      Framing
		empty, one   []byte
		item, joined []byte
	}{
		"json": {
			JSON, []byte(`{"kind":"L","items":[]}` + "\n"), []byte(`{"kind":"L","items":[{"a":"]}"}]}` + "\n"),
			[]byte(`{"a":"]}"}`), []byte(`{"kind":"L","items":[{"a":"]}"},{"a":"]}"}]}` + "\n"),
		},
		"json with fields behind": {
			JSON, []byte(`{"items":[],"x":1}`), []byte(`{"items":[{}],"x":1}`), []byte(`{}`), []byte(`{"items":[{},{}],"x":1}`),
		},
		"pretty": {
			PrettyJSON, []byte("{\n  \"items\": []\n}"), []byte("{\n  \"items\": [\n    {\n      \"a\": 1\n    }\n  ]\n}"),
			[]byte("    {\n      \"a\": 1\n    }"), []byte("{\n  \"items\": [\n    {\n      \"a\": 1\n    },\n    {\n      \"a\": 1\n    }\n  ]\n}"),
		},
		"protobuf": {
			Protobuf, envelope(meta), envelope(append(bytes.Clone(meta), field(2, "item")...)),
			field(2, "item"), envelope(bytes.Join([][]byte{meta, field(2, "item"), field(2, "item")}, nil)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			surrounding, err := c.framing.split(c.empty)
			if err != nil {
				t.Fatal(err)
			}
			item, err := c.framing.cut(c.one, surrounding)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(item, c.item) {
				t.Errorf("cut %q, want %q", item, c.item)
			}
			items := bytes.Join([][]byte{item, item}, c.framing.separator())
			header, trailer := c.framing.join(surrounding, int64(len(items)))
			if got := bytes.Join([][]byte{header, items, trailer}, nil); !bytes.Equal(got, c.joined) {
				t.Errorf("joined %q, want %q", got, c.joined)
			}
		})
	}
}

func TestFramingRejectsOtherShapes(t *testing.T) {
	truncated := envelope(field(1, "meta"))
	for name, c := range map[string]struct {
		framing Framing
		encoded []byte
	}{
		"json without":         {JSON, []byte(`{}`)},
		"json pretty":          {JSON, []byte(`{"items": []}`)},
		"json nothing":         {JSON, nil},
		"pretty compact":       {PrettyJSON, []byte(`{"items":[]}`)},
		"protobuf nothing":     {Protobuf, nil},
		"protobuf magic":       {Protobuf, []byte("k8x\x00")},
		"protobuf only magic":  {Protobuf, protobufMagic},
		"protobuf bad tag":     {Protobuf, append(bytes.Clone(protobufMagic), 0xff)},
		"protobuf no list":     {Protobuf, append(bytes.Clone(protobufMagic), field(1, "type")...)},
		"protobuf varint list": {Protobuf, append(bytes.Clone(protobufMagic), 0x10, 0x01)},
		"protobuf cut short":   {Protobuf, truncated[:len(truncated)-8]},
		"protobuf short other": {Protobuf, append(bytes.Clone(protobufMagic), 0x0a, 0x05, 'a')},
	} {
		if _, err := c.framing.split(c.encoded); !errors.Is(err, ErrShape) {
			t.Errorf("split %s: %v, want ErrShape", name, err)
		}
	}
}

func TestCutRejectsOtherShapes(t *testing.T) {
	meta := field(1, "meta")
	with := func(items ...[]byte) []byte { return envelope(append(bytes.Clone(meta), bytes.Join(items, nil)...)) }
	for name, c := range map[string]struct {
		framing      Framing
		empty, other []byte
	}{
		"json other metadata":     {JSON, []byte(`{"a":1,"items":[]}`), []byte(`{"a":2,"items":[{}]}`)},
		"json other end":          {JSON, []byte(`{"items":[]}`), []byte(`{"items":[{}],"b":1}`)},
		"pretty other indent":     {PrettyJSON, []byte("{\n  \"items\": []\n}"), []byte("{\n  \"items\": [\n   {}\n ]\n}")},
		"protobuf not a list":     {Protobuf, with(), []byte("x")},
		"protobuf other metadata": {Protobuf, with(), envelope(append(field(1, "atem"), field(2, "item")...))},
		"protobuf no item":        {Protobuf, with(), with()},
		"protobuf two items":      {Protobuf, with(), with(field(2, "a"), field(2, "b"))},
		"protobuf other field":    {Protobuf, with(), with(field(3, "a"))},
		"protobuf varint":         {Protobuf, with(), with([]byte{0x10, 0x01})},
		"protobuf long item":      {Protobuf, with(), with([]byte{0x12, 0x05, 'a'})},
		"protobuf endless length": {Protobuf, with(), with([]byte{0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})},
		"protobuf bad length":     {Protobuf, with(), with([]byte{0x12, 0xff})},
	} {
		t.Run(name, func(t *testing.T) {
			surrounding, err := c.framing.split(c.empty)
			if err != nil {
				t.Fatal(err)
			}
			if item, err := c.framing.cut(c.other, surrounding); !errors.Is(err, ErrShape) {
				t.Errorf("cut %q, %v, want ErrShape", item, err)
			}
		})
	}
}

// FuzzSplit looks for inputs with which the parsers fail otherwise than by ErrShape.
func FuzzSplit(f *testing.F) {
	f.Add(envelope(field(1, "meta")), envelope(append(field(1, "meta"), field(2, "item")...)))
	f.Add([]byte(`{"items":[]}`), []byte(`{"items":[{}]}`))
	f.Fuzz(func(t *testing.T, empty, one []byte) {
		for _, framing := range []Framing{JSON, PrettyJSON, Protobuf} {
			surrounding, err := framing.split(empty)
			if err != nil {
				if !errors.Is(err, ErrShape) {
					t.Fatalf("split: %v", err)
				}
				continue
			}
			if _, err := framing.cut(one, surrounding); err != nil && !errors.Is(err, ErrShape) {
				t.Fatalf("cut: %v", err)
			}
		}
	})
}
