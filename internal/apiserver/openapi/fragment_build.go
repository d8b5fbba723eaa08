package openapi

import (
	"errors"

	"github.com/millrace/millrace/internal/apiserver/crd"
	"github.com/millrace/millrace/internal/apiserver/openapi/publish"
	"github.com/millrace/millrace/internal/wire/encode"
)

// proto returns the protobuf form of documents. It returns nil for JSON.
func (f form) proto() *publish.Proto {
	switch f {
	case v2Proto:
		return &publish.ProtoV2
	case v3Proto:
		return &publish.ProtoV3
	}
	return nil
}

// fragment makes a fragment of JSON entries.
func (f form) fragment(entries publish.Entries) (fragment, error) {
	p := f.proto()
	if p == nil {
		return newFragment(entries.Paths, entries.Schemas)
	}
	paths, schemas, err := p.EncodeEntries(entries)
	if err != nil {
		return fragment{}, err
	}
	return newFragment(paths, schemas)
}

// fromStored makes a fragment from a definition's stored text: of all served versions, or
// of the one that is named. It reports false if Kubernetes' code has to make it of the
// decoded definition.
func (s *Server) fromStored(d *crd.Definition, version string, f form, templates func(publish.Shape) (*publish.PathTemplate, error)) (made fragment, can bool, err error) {
	t := publish.NewPublisher()
	defer t.Release()
	err = s.config.Catalog.StoredOf(d, func(stored []byte) (err error) {
		can, err = t.Write(stored, d, version, templates)
		return err
	})
	if errors.Is(err, crd.ErrChanged) {
		return fragment{}, false, err
	}
	if err != nil || !can {
		return fragment{}, false, nil // an error recurs when the definition is decoded
	}
	if p := f.proto(); p != nil {
		made, err = f.fragment(t.Entries(p))
		return made, true, err
	}
	// The paths are not encoded yet: to write them again is faster than to inflate them.
	if made, err = newFragment(nil, t.Schemas()); err == nil {
		made.paths = encode.NewLazyPiece(t.Paths().Append)
	}
	return made, true, err
}
