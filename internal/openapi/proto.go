package openapi

import (
	"fmt"

	"github.com/google/gnostic-models/compiler"
	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/millrace/millrace/internal/encode"
)

// Entries of a map are a repeated field in the protobuf form (gnostic), and
// repeated fields are concatenated on the wire. So a fragment is the fields of
// its entries, and a document puts their size before them.

// Proto is the protobuf form of one version of OpenAPI.
type Proto struct {
	// parse makes the message of a JSON document.
	parse func(*yaml.Node) (proto.Message, error)
	// open and between and shut make a document of nothing but entries.
	open, between, shut string
	// sorted documents have the keys of objects in order: an extension's value is
	// text in the message, and the aggregator has sorted those of v2.
	sorted bool
	// Paths and schemas are the numbers of the fields that lead to the entries.
	Paths, Schemas []protowire.Number
	// entry is the message whose fields the entries of paths are.
	entry protoreflect.MessageDescriptor
}

var ProtoV2 = Proto{
	parse: func(root *yaml.Node) (proto.Message, error) {
		return openapi_v2.NewDocument(root, compiler.NewContextWithExtensions("$root", root, nil, nil))
	},
	sorted: true,
	entry:  (&openapi_v2.Paths{}).ProtoReflect().Descriptor(),
	open:   `{"swagger":"2.0","info":{"title":"","version":""},"paths":{`, between: `},"definitions":{`, shut: `}}`,
	Paths:   []protowire.Number{fieldNumber(&openapi_v2.Document{}, "paths"), fieldNumber(&openapi_v2.Paths{}, "path")},
	Schemas: []protowire.Number{fieldNumber(&openapi_v2.Document{}, "definitions"), fieldNumber(&openapi_v2.Definitions{}, "additional_properties")},
}

var ProtoV3 = Proto{
	parse: func(root *yaml.Node) (proto.Message, error) {
		return openapi_v3.NewDocument(root, compiler.NewContextWithExtensions("$root", root, nil, nil))
	},
	entry: (&openapi_v3.Paths{}).ProtoReflect().Descriptor(),
	open:  `{"openapi":"3.0.0","info":{"title":"","version":""},"paths":{`, between: `},"components":{"schemas":{`, shut: `}}}`,
	Paths: []protowire.Number{fieldNumber(&openapi_v3.Document{}, "paths"), fieldNumber(&openapi_v3.Paths{}, "path")},
	Schemas: []protowire.Number{fieldNumber(&openapi_v3.Document{}, "components"), fieldNumber(&openapi_v3.Components{}, "schemas"),
		fieldNumber(&openapi_v3.SchemasOrReferences{}, "additional_properties")},
}

func fieldNumber(m proto.Message, name string) protowire.Number {
	for i, fields := 0, m.ProtoReflect().Descriptor().Fields(); i < fields.Len(); i++ {
		if string(fields.Get(i).Name()) == name {
			return fields.Get(i).Number()
		}
	}
	panic("no field " + name) // the messages are constants
}

// Encode is the message of a JSON document.
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

// proto is how documents of the form are written, nil for JSON.
func (f form) proto() *Proto {
	switch f {
	case v2Proto:
		return &ProtoV2
	case v3Proto:
		return &ProtoV3
	}
	return nil
}

// fragment makes that of JSON entries.
func (f form) fragment(entries Entries) (fragment, error) {
	if p := f.proto(); p != nil {
		return p.fragment(entries)
	}
	return newFragment(entries.Paths, entries.Schemas)
}

// fragment makes that of JSON entries.
func (p *Proto) fragment(entries Entries) (fragment, error) {
	binary, err := p.Encode(p.open + string(entries.Paths) + p.between + string(entries.Schemas) + p.shut)
	if err != nil {
		return fragment{}, err
	}
	paths := entries.binaryPaths
	if paths == nil {
		if paths, err = Nested(binary, p.Paths[:len(p.Paths)-1]); err != nil {
			return fragment{}, err
		}
	}
	schemas, err := Nested(binary, p.Schemas[:len(p.Schemas)-1])
	if err != nil {
		return fragment{}, err
	}
	return newFragment(paths, schemas)
}

// EncodeHead is the message of a document that has no entries, without the fields
// that lead to them.
func (p *Proto) EncodeHead(document string) ([]byte, error) {
	binary, err := p.Encode(document)
	if err != nil {
		return nil, err
	}
	return p.WithoutEntries(binary)
}

// WithoutEntries is a message without its paths and schemas.
func (p *Proto) WithoutEntries(binary []byte) ([]byte, error) {
	var out []byte
	err := protoFields(binary, func(n protowire.Number, field, _ []byte) {
		if n != p.Paths[0] && n != p.Schemas[0] {
			out = append(out, field...)
		}
	})
	return out, err
}

// entries adds entries behind the fields that lead to them.
func (p *Proto) entries(d *document, paths, schemas []encode.Piece) {
	for _, part := range []struct {
		way    []protowire.Number
		pieces []encode.Piece
	}{{p.Paths, paths}, {p.Schemas, schemas}} {
		var size int64
		for _, piece := range part.pieces {
			size += piece.Size()
		}
		if size == 0 && part.way[0] == p.Schemas[0] {
			continue
		}
		var lead []byte
		for i := len(part.way) - 2; i >= 0; i-- {
			tag := protowire.AppendTag(nil, part.way[i], protowire.BytesType)
			tag = protowire.AppendVarint(tag, uint64(size)+uint64(len(lead)))
			lead = append(tag, lead...)
		}
		d.add(mustPiece(string(lead)))
		d.add(part.pieces...)
	}
}

// Nested follows fields of messages in messages.
func Nested(message []byte, way []protowire.Number) ([]byte, error) {
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

// protoFields calls f for each field with its bytes and, of a field with a length,
// its value.
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
