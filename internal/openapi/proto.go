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

// protoForm is the protobuf form of one version of OpenAPI.
type protoForm struct {
	// parse makes the message of a JSON document.
	parse func(*yaml.Node) (proto.Message, error)
	// open and between and shut make a document of nothing but entries.
	open, between, shut string
	// sorted documents have the keys of objects in order: an extension's value is
	// text in the message, and the aggregator has sorted those of v2.
	sorted bool
	// paths and schemas are the numbers of the fields that lead to the entries.
	paths, schemas []protowire.Number
	// entry is the message whose fields the entries of paths are.
	entry protoreflect.MessageDescriptor
}

var protoV2 = protoForm{
	parse: func(root *yaml.Node) (proto.Message, error) {
		return openapi_v2.NewDocument(root, compiler.NewContextWithExtensions("$root", root, nil, nil))
	},
	sorted: true,
	entry:  (&openapi_v2.Paths{}).ProtoReflect().Descriptor(),
	open:   `{"swagger":"2.0","info":{"title":"","version":""},"paths":{`, between: `},"definitions":{`, shut: `}}`,
	paths:   []protowire.Number{fieldOf(&openapi_v2.Document{}, "paths"), fieldOf(&openapi_v2.Paths{}, "path")},
	schemas: []protowire.Number{fieldOf(&openapi_v2.Document{}, "definitions"), fieldOf(&openapi_v2.Definitions{}, "additional_properties")},
}

var protoV3 = protoForm{
	parse: func(root *yaml.Node) (proto.Message, error) {
		return openapi_v3.NewDocument(root, compiler.NewContextWithExtensions("$root", root, nil, nil))
	},
	entry: (&openapi_v3.Paths{}).ProtoReflect().Descriptor(),
	open:  `{"openapi":"3.0.0","info":{"title":"","version":""},"paths":{`, between: `},"components":{"schemas":{`, shut: `}}}`,
	paths: []protowire.Number{fieldOf(&openapi_v3.Document{}, "paths"), fieldOf(&openapi_v3.Paths{}, "path")},
	schemas: []protowire.Number{fieldOf(&openapi_v3.Document{}, "components"), fieldOf(&openapi_v3.Components{}, "schemas"),
		fieldOf(&openapi_v3.SchemasOrReferences{}, "additional_properties")},
}

func fieldOf(m proto.Message, name string) protowire.Number {
	for i, fields := 0, m.ProtoReflect().Descriptor().Fields(); i < fields.Len(); i++ {
		if string(fields.Get(i).Name()) == name {
			return fields.Get(i).Number()
		}
	}
	panic("no field " + name) // the messages are constants
}

// binary is the message of a JSON document.
func (p *protoForm) binary(document string) ([]byte, error) {
	root, err := yamlOf(document, p.sorted)
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
func (f form) proto() *protoForm {
	switch f {
	case v2Proto:
		return &protoV2
	case v3Proto:
		return &protoV3
	}
	return nil
}

// fragment makes that of JSON entries.
func (f form) fragment(entries text) (fragment, error) {
	if p := f.proto(); p != nil {
		return p.fragment(entries)
	}
	return compressed(entries.paths, entries.schemas)
}

// fragment makes that of JSON entries.
func (p *protoForm) fragment(entries text) (fragment, error) {
	binary, err := p.binary(p.open + string(entries.paths) + p.between + string(entries.schemas) + p.shut)
	if err != nil {
		return fragment{}, err
	}
	paths := entries.binaryPaths
	if paths == nil {
		if paths, err = only(binary, p.paths[:len(p.paths)-1]); err != nil {
			return fragment{}, err
		}
	}
	schemas, err := only(binary, p.schemas[:len(p.schemas)-1])
	if err != nil {
		return fragment{}, err
	}
	return compressed(paths, schemas)
}

// head is the message of a document that has no entries, without the fields
// that lead to them.
func (p *protoForm) head(document string) ([]byte, error) {
	binary, err := p.binary(document)
	if err != nil {
		return nil, err
	}
	return p.rest(binary)
}

// rest is a message without its paths and schemas.
func (p *protoForm) rest(binary []byte) ([]byte, error) {
	var out []byte
	err := fields(binary, func(n protowire.Number, field, _ []byte) {
		if n != p.paths[0] && n != p.schemas[0] {
			out = append(out, field...)
		}
	})
	return out, err
}

// entries adds entries behind the fields that lead to them.
func (p *protoForm) entries(d *document, paths, schemas []encode.Piece) {
	for _, part := range []struct {
		way    []protowire.Number
		pieces []encode.Piece
	}{{p.paths, paths}, {p.schemas, schemas}} {
		var size int64
		for _, piece := range part.pieces {
			size += piece.Size()
		}
		if size == 0 && part.way[0] == p.schemas[0] {
			continue
		}
		var lead []byte
		for i := len(part.way) - 2; i >= 0; i-- {
			tag := protowire.AppendTag(nil, part.way[i], protowire.BytesType)
			tag = protowire.AppendVarint(tag, uint64(size)+uint64(len(lead)))
			lead = append(tag, lead...)
		}
		d.add(constant(string(lead)))
		d.add(part.pieces...)
	}
}

// only follows fields of messages in messages.
func only(message []byte, way []protowire.Number) ([]byte, error) {
	for _, want := range way {
		var inside []byte
		err := fields(message, func(n protowire.Number, _, value []byte) {
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

// fields calls f for each field with its bytes and, of a field with a length,
// its value.
func fields(message []byte, f func(n protowire.Number, field, value []byte)) error {
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
