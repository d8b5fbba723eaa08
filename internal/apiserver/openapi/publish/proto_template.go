package publish

import (
	"bytes"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// protoTemplate is the fields of a message with the names of a custom resource cut out.
// Gnostic takes ten times as long for the paths of a resource as all other steps
// together.
type protoTemplate []protoPart

// protoPart is a field that contains names, and the fields before it.
type protoPart struct {
	// before is the encoded fields before the field. tag is nil after the last field.
	before, tag []byte
	// The field is either text or a message of the fields inside.
	text   textTemplate
	inside protoTemplate
}

// newProtoTemplate makes a template of an exemplar's encoded fields. message is the type of the
// message that has these fields.
func newProtoTemplate(exemplar []byte, message protoreflect.MessageDescriptor) (protoTemplate, error) {
	var t protoTemplate
	var last protoPart
	err := protoFields(exemplar, func(n protowire.Number, field, value []byte) {
		made := protoPart{before: last.before, tag: protowire.AppendTag(nil, n, protowire.BytesType)}
		if known := message.Fields().ByNumber(n); value != nil && known != nil {
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

// lazyProtoTemplate is the protobuf template of a PathTemplate's paths, made when first
// needed.
type lazyProtoTemplate struct {
	once     sync.Once
	template protoTemplate
}

// get returns the template, or nil if it cannot be made. It also returns nil if a trial with the
// names of another resource shows that the template does not write what gnostic does.
func (t *lazyProtoTemplate) get(p *Proto, m *PathTemplate) protoTemplate {
	t.once.Do(func() {
		exemplar := resourceNames{group: exemplarGroup, version: ExemplarVersion, plural: exemplarPlural, kind: exemplarKind, listKind: exemplarListKind}
		exemplar.fields = selectableJSON([]string{"." + exemplarField})
		made, err := p.encodePaths(m, exemplar)
		if err != nil {
			return
		}
		template, err := newProtoTemplate(made, p.entry)
		if err != nil {
			return
		}
		trial := resourceNames{group: "another.longer.example.com", version: "v12beta3", plural: "lamps", kind: "A", listKind: "ManyLongerNamesOfLamps"}
		trial.fields = selectableJSON([]string{".spec.one", ".spec.another"})
		if made, err = p.encodePaths(m, trial); err != nil {
			return
		}
		var b reverseBuffer
		if b.fill(template, trial.filler()); bytes.Equal(b.bytes(), made) {
			t.template = template
		}
	})
	return t.template
}

// encodePaths encodes the paths of a resource with gnostic.
func (p *Proto) encodePaths(m *PathTemplate, n resourceNames) ([]byte, error) {
	binary, err := p.Encode(p.open + string(n.filler().append(nil, m.paths)) + p.between + p.shut)
	if err != nil {
		return nil, err
	}
	return nested(binary, p.paths[:len(p.paths)-1])
}

// quotedYAML are the words, in lower case, that YAML writes in quotes, because without them
// they would not be read as strings.
var quotedYAML = map[string]bool{"true": true, "false": true, "yes": true, "no": true, "on": true, "off": true, "y": true, "n": true, "null": true}

// plainYAML reports whether YAML writes the names without quotes. Extensions are YAML inside
// messages. A group that begins with a letter cannot be read as a number.
func (n resourceNames) plainYAML() bool {
	return n.group[0] >= 'a' && !quotedYAML[n.version] && !quotedYAML[strings.ToLower(n.kind)]
}

// binaryPaths encodes paths from templates. It returns nil if gnostic has to.
func (p *Proto) binaryPaths(all Paths) []byte {
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
