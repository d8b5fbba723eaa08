package openapi

import (
	"bytes"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// protoTemplate is the fields of a message with the names of a custom resource
// left out. To make gnostic's messages of the paths of each takes ten times as
// long as all else.
type protoTemplate []protoPart

// protoPart is a field that has names in it.
type protoPart struct {
	// before is the fields before it. tag is nil if there is no more.
	before, tag []byte
	// The field is a text, or a message if it has an inside.
	text   textTemplate
	inside protoTemplate
}

// newProtoTemplate makes a template of a sample's fields.
func newProtoTemplate(sample []byte, of protoreflect.MessageDescriptor) (protoTemplate, error) {
	var t protoTemplate
	var last protoPart
	err := protoFields(sample, func(n protowire.Number, field, value []byte) {
		made := protoPart{before: last.before, tag: protowire.AppendTag(nil, n, protowire.BytesType)}
		if known := of.Fields().ByNumber(n); value != nil && known != nil {
			switch known.Kind() {
			case protoreflect.MessageKind:
				if inside, err := newProtoTemplate(value, known.Message()); err == nil && len(inside) > 1 {
					made.inside = inside
				}
			case protoreflect.StringKind:
				if text := newTextTemplate(string(value)); len(text) > 1 {
					made.text = text
				}
			}
		}
		if made.inside == nil && made.text == nil {
			last.before = append(last.before, field...)
			return
		}
		t, last = append(t, made), protoPart{}
	})
	return append(t, last), err
}

// reverseBuffer is bytes that are written from their end: so the size of a message is
// known when it is to be written.
type reverseBuffer struct {
	buf  []byte
	from int
}

func (b *reverseBuffer) put(p string) {
	if b.from < len(p) {
		grown := make([]byte, 2*len(b.buf)+len(p)+1024)
		from := len(grown) - b.size()
		copy(grown[from:], b.bytes())
		b.buf, b.from = grown, from
	}
	b.from -= len(p)
	copy(b.buf[b.from:], p)
}

func (b *reverseBuffer) bytes() []byte { return b.buf[b.from:] }
func (b *reverseBuffer) size() int     { return len(b.buf) - b.from }

func (b *reverseBuffer) fill(t protoTemplate, f *nameFiller) {
	for i := len(t) - 1; i >= 0; i-- {
		if part := &t[i]; part.tag != nil {
			end := b.size()
			for k := len(part.text) - 1; k >= 0; k-- {
				b.put(f.forms[part.text[k].name])
				b.put(part.text[k].text)
			}
			b.fill(part.inside, f)
			b.put(string(protowire.AppendVarint(nil, uint64(b.size()-end))))
			b.put(string(part.tag))
		}
		b.put(string(t[i].before))
	}
}

// lazyProtoTemplate is the template of a mold's paths.
type lazyProtoTemplate struct {
	once     sync.Once
	template protoTemplate
}

// get makes it when it is first needed. It is empty if it does not write what
// gnostic makes, which is tried with the names of another resource.
func (t *lazyProtoTemplate) get(p *Proto, m *PathTemplate) protoTemplate {
	t.once.Do(func() {
		sample := resourceNames{group: exemplarGroup, version: ExemplarVersion, plural: exemplarPlural, kind: exemplarKind, listKind: exemplarListKind}
		sample.fields = selectableJSON([]string{"." + exemplarField})
		made, err := p.encodePaths(m, sample)
		if err != nil {
			return
		}
		template, err := newProtoTemplate(made, p.entry)
		if err != nil {
			return
		}
		other := resourceNames{group: "another.longer.example.com", version: "v12beta3", plural: "lamps", kind: "A", listKind: "ManyLongerNamesOfLamps"}
		other.fields = selectableJSON([]string{".spec.one", ".spec.another"})
		if made, err = p.encodePaths(m, other); err != nil {
			return
		}
		var b reverseBuffer
		if b.fill(template, other.filler()); bytes.Equal(b.bytes(), made) {
			t.template = template
		}
	})
	return t.template
}

// encodePaths is what gnostic makes of a mold's paths.
func (p *Proto) encodePaths(m *PathTemplate, n resourceNames) ([]byte, error) {
	binary, err := p.Encode(p.open + string(n.filler().append(nil, m.paths)) + p.between + p.shut)
	if err != nil {
		return nil, err
	}
	return Nested(binary, p.Paths[:len(p.Paths)-1])
}

// quotedYAML are words that are written in quotes in YAML, in small letters, for
// they would not be read as text.
var quotedYAML = map[string]bool{"true": true, "false": true, "yes": true, "no": true, "on": true, "off": true, "y": true, "n": true, "null": true}

// plainYAML reports whether the names stand in YAML as they are: extensions are
// YAML in a message. A group that begins with a letter is no number.
func (n resourceNames) plainYAML() bool {
	return n.group[0] >= 'a' && !quotedYAML[n.version] && !quotedYAML[strings.ToLower(n.kind)]
}

// binaryPaths are a definition's, nil if there is no template of them.
func (p *Proto) binaryPaths(all lazyPaths) []byte {
	var b reverseBuffer
	for i := len(all) - 1; i >= 0; i-- {
		template := all[i].template.proto.get(p, all[i].template)
		if template == nil || !all[i].names.plainYAML() {
			return nil
		}
		b.fill(template, all[i].names.filler())
	}
	return b.bytes()
}
