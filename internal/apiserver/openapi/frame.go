package openapi

import (
	"fmt"
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/apiserver/openapi/publish"
	"github.com/millrace/millrace/internal/wire/encode"
)

// frame is what surrounds the fragments of a document.
type frame struct {
	form form
	// head ends before the first path, and middle before the first schema. In protobuf
	// middle is empty, because sizes come between.
	head, middle, tail []encode.Piece
	// paths and schemas are entries before the entries of the fragments.
	paths, schemas []encode.Piece
}

// document puts fragments into the frame.
func (f *frame) document(found []fragment) *document {
	paths, schemas := make([]encode.Piece, len(found)), make([]encode.Piece, len(found))
	for i, fragment := range found {
		paths[i], schemas[i] = fragment.paths, fragment.schemas
	}
	d := &document{}
	d.add(f.head...)
	switch f.form {
	case v2Proto:
		d.addProto(&publish.ProtoV2, slices.Concat(f.paths, paths), slices.Concat(f.schemas, schemas))
	case v3Proto:
		d.addProto(&publish.ProtoV3, slices.Concat(f.paths, paths), slices.Concat(f.schemas, schemas))
	default:
		d.addEntries(f.paths, paths)
		d.add(f.middle...)
		d.addEntries(f.schemas, schemas)
	}
	d.add(f.tail...)
	return d
}

// addProto adds entries to a protobuf document. Gnostic writes paths even if there are
// none, but not schemas.
func (d *document) addProto(p *publish.Proto, paths, schemas []encode.Piece) {
	d.add(mustPiece(string(p.PathsLead(sizeOf(paths)))))
	d.add(paths...)
	if size := sizeOf(schemas); size > 0 {
		d.add(mustPiece(string(p.SchemasLead(size))))
		d.add(schemas...)
	}
}

// sizeOf returns the size of the plain text of pieces.
func sizeOf(pieces []encode.Piece) (size int64) {
	for _, piece := range pieces {
		size += piece.Size()
	}
	return size
}

// addEntries adds the entries of a JSON object. The pieces of first may be cut anywhere.
// Each piece of others is a whole entry.
func (d *document) addEntries(first, others []encode.Piece) {
	before := d.size()
	d.add(first...)
	if d.size() > before && slices.ContainsFunc(others, func(p encode.Piece) bool { return p.Size() > 0 }) {
		d.add(comma)
	}
	d.addSeparated(comma, others)
}

// frameV3 returns the frame of v3 documents with members of these Shapes.
func (s *Server) frameV3(found []publish.Shape, f form) (*frame, error) {
	made, err := s.fragments.get(fragmentKey{f, "", fmt.Sprint(found)}, 0, func() (fragment, error) {
		shared, err := s.sharedV3(found)
		if err != nil {
			return fragment{}, err
		}
		return f.fragment(shared)
	})
	if err != nil {
		return nil, err
	}
	head, err := publish.HeadV3()
	if err != nil {
		return nil, err
	}
	out := &frame{form: f, schemas: []encode.Piece{made.schemas}}
	if f == v3Proto {
		binary, err := publish.ProtoV3.EncodeHead(head + "}}")
		if err != nil {
			return nil, err
		}
		out.head = []encode.Piece{mustPiece(string(binary))}
		return out, nil
	}
	out.head = []encode.Piece{mustPiece(head)}
	out.middle = []encode.Piece{mustPiece(`},"components":{"schemas":{`)}
	out.tail = []encode.Piece{mustPiece(`}}}`)}
	return out, nil
}

// sharedV3 returns the schemas that custom resources of these Shapes refer to.
func (s *Server) sharedV3(found []publish.Shape) (publish.Entries, error) {
	all := map[string]string{}
	for _, shape := range found {
		made, err := s.templates.V3(shape)
		if err != nil {
			return publish.Entries{}, err
		}
		for name, schema := range made.SharedSchemas {
			all[name] = schema
		}
	}
	var out publish.Entries
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out.Append(nil, []byte(`"`+name+`":`+all[name]))
	}
	return out, nil
}
