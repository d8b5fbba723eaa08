package publish

import (
	"fmt"

	"github.com/google/gnostic-models/compiler"
	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The entries of a map are a repeated field in gnostic's messages, and repeated fields are
// concatenated on the wire. So the entries of a document are the entries of its definitions
// one after the other, with tags and sizes before the first.

// Proto is the protobuf form of one version of OpenAPI. See ProtoV2 and ProtoV3.
type Proto struct {
	// parse makes the message of a JSON document.
	parse func(*yaml.Node) (proto.Message, error)
	// open, between and shut surround the paths and the schemas of a document that has
	// nothing else.
	open, between, shut string
	// sorted says that Encode puts the keys of objects in order. The value of an extension is
	// text in the message, and Kubernetes' aggregator sorts this text in v2.
	sorted bool
	// paths and schemas are the numbers of the fields that lead to the entries.
	paths, schemas []protowire.Number
	// entry is the type of the message that contains the paths.
	entry protoreflect.MessageDescriptor
}

// ProtoV2 is the protobuf form of v2 documents.
var ProtoV2 = Proto{
	parse: func(root *yaml.Node) (proto.Message, error) {
		return openapi_v2.NewDocument(root, compiler.NewContextWithExtensions("$root", root, nil, nil))
	},
	sorted: true,
	entry:  (&openapi_v2.Paths{}).ProtoReflect().Descriptor(),
	open:   `{"swagger":"2.0","info":{"title":"","version":""},"paths":{`, between: `},"definitions":{`, shut: `}}`,
	paths:   []protowire.Number{fieldNumber(&openapi_v2.Document{}, "paths"), fieldNumber(&openapi_v2.Paths{}, "path")},
	schemas: []protowire.Number{fieldNumber(&openapi_v2.Document{}, "definitions"), fieldNumber(&openapi_v2.Definitions{}, "additional_properties")},
}

// ProtoV3 is the protobuf form of v3 documents.
var ProtoV3 = Proto{
	parse: func(root *yaml.Node) (proto.Message, error) {
		return openapi_v3.NewDocument(root, compiler.NewContextWithExtensions("$root", root, nil, nil))
	},
	entry: (&openapi_v3.Paths{}).ProtoReflect().Descriptor(),
	open:  `{"openapi":"3.0.0","info":{"title":"","version":""},"paths":{`, between: `},"components":{"schemas":{`, shut: `}}}`,
	paths: []protowire.Number{fieldNumber(&openapi_v3.Document{}, "paths"), fieldNumber(&openapi_v3.Paths{}, "path")},
	schemas: []protowire.Number{fieldNumber(&openapi_v3.Document{}, "components"), fieldNumber(&openapi_v3.Components{}, "schemas"),
		fieldNumber(&openapi_v3.SchemasOrReferences{}, "additional_properties")},
}

// fieldNumber returns the number of a message's field.
func fieldNumber(m proto.Message, name string) protowire.Number {
	for i, fields := 0, m.ProtoReflect().Descriptor().Fields(); i < fields.Len(); i++ {
		if string(fields.Get(i).Name()) == name {
			return fields.Get(i).Number()
		}
	}
	panic("no field " + name) // callers name fields of generated types
}

// Encode encodes a JSON document.
func (p *Proto) Encode(document string) ([]byte, error) {
	root, err := parseYAML(document, p.sorted)
	if err != nil {
		return nil, err
	}
	message, err := p.parse(root)
	if err != nil {
		return nil, fmt.Errorf("convert to protobuf: %w", err)
	}
	out, err := proto.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("encode protobuf: %w", err)
	}
	return out, nil
}

// EncodeEntries encodes entries as the fields of the messages that contain them.
func (p *Proto) EncodeEntries(entries Entries) (paths, schemas []byte, err error) {
	binary, err := p.Encode(p.open + string(entries.Paths) + p.between + string(entries.Schemas) + p.shut)
	if err != nil {
		return nil, nil, err
	}
	if paths, schemas, err = p.Entries(binary); err == nil && entries.binaryPaths != nil {
		paths = entries.binaryPaths
	}
	return paths, schemas, err
}

// Entries returns the fields of the messages that contain a document's paths and schemas.
func (p *Proto) Entries(document []byte) (paths, schemas []byte, err error) {
	if paths, err = nested(document, p.paths[:len(p.paths)-1]); err != nil {
		return nil, nil, err
	}
	schemas, err = nested(document, p.schemas[:len(p.schemas)-1])
	return paths, schemas, err
}

// EncodeHead encodes a JSON document without its paths and schemas.
func (p *Proto) EncodeHead(document string) ([]byte, error) {
	binary, err := p.Encode(document)
	if err != nil {
		return nil, err
	}
	return p.WithoutEntries(binary)
}

// WithoutEntries returns an encoded document without its paths and schemas.
func (p *Proto) WithoutEntries(binary []byte) ([]byte, error) {
	var out []byte
	err := protoFields(binary, func(n protowire.Number, field, _ []byte) {
		if n != p.paths[0] && n != p.schemas[0] {
			out = append(out, field...)
		}
	})
	return out, err
}

// PathsLead returns the bytes that precede path entries of size bytes in a document.
func (p *Proto) PathsLead(size int64) []byte { return lead(p.paths, size) }

// SchemasLead returns the bytes that precede schema entries of size bytes in a document.
func (p *Proto) SchemasLead(size int64) []byte { return lead(p.schemas, size) }

// lead returns the tags and sizes of the messages that contain entries.
func lead(numbers []protowire.Number, size int64) []byte {
	var lead []byte
	for i := len(numbers) - 2; i >= 0; i-- {
		tag := protowire.AppendTag(nil, numbers[i], protowire.BytesType)
		tag = protowire.AppendVarint(tag, uint64(size)+uint64(len(lead)))
		lead = append(tag, lead...)
	}
	return lead
}

// nested returns the value of a field of a message inside other messages, given the
// numbers of all fields on the way. Values of a repeated field are concatenated.
func nested(message []byte, way []protowire.Number) ([]byte, error) {
	for _, want := range way {
		var inside []byte
		err := protoFields(message, func(n protowire.Number, _, value []byte) {
			if n == want {
				inside = append(inside, value...)
			}
		})
		if err != nil {
			return nil, err
		}
		message = inside
	}
	return message, nil
}

// protoFields calls f for each field of a message with its bytes. The value is set for
// fields that have a length.
func protoFields(message []byte, f func(n protowire.Number, field, value []byte)) error {
	for len(message) > 0 {
		n, t, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return fmt.Errorf("read protobuf: %w", protowire.ParseError(tag))
		}
		size := protowire.ConsumeFieldValue(n, t, message[tag:])
		if size < 0 {
			return fmt.Errorf("read protobuf: %w", protowire.ParseError(size))
		}
		var value []byte
		if t == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(message[tag:])
		}
		f(n, message[:tag+size], value)
		message = message[tag+size:]
	}
	return nil
}
