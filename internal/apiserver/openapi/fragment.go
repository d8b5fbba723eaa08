package openapi

import (
	"fmt"

	"github.com/millrace/millrace/internal/wire/encode"
)

// form is a version of OpenAPI in one media type.
type form uint8

const (
	v2JSON form = iota
	v2Proto
	v3JSON
	v3Proto
)

// fragment is the entries that belong to one owner in documents of one form. The zero
// fragment has none.
type fragment struct {
	paths, schemas encode.Piece
}

// cost returns the memory of the fragment in bytes.
func (f fragment) cost() int64 { return f.paths.Cost() + f.schemas.Cost() + fragmentCost }

// withS2 returns the fragment with its text in s2 as well, which inflates several times
// faster.
func (f fragment) withS2() (fragment, error) {
	var err error
	if f.paths, err = f.paths.WithS2(); err != nil {
		return fragment{}, fmt.Errorf("compress paths: %w", err)
	}
	if f.schemas, err = f.schemas.WithS2(); err != nil {
		return fragment{}, fmt.Errorf("compress schemas: %w", err)
	}
	return f, nil
}

// fragmentCost is about the memory of a cached fragment besides its bytes.
const fragmentCost = 400

// fragmentKey names a fragment.
type fragmentKey struct {
	form form
	// owner is the name of a definition. It is "" for what belongs to no definition.
	owner string
	// version is the definition's version in v3, and "" in v2, whose fragments have all
	// versions. Without an owner, it is the path of a built-in document, or the Shapes of a
	// frame.
	version string
}

// newFragment compresses entries.
func newFragment(paths, schemas []byte) (fragment, error) {
	var f fragment
	var err error
	if f.paths, err = encode.NewPiece(paths); err != nil {
		return fragment{}, fmt.Errorf("compress paths: %w", err)
	}
	if f.schemas, err = encode.NewPiece(schemas); err != nil {
		return fragment{}, fmt.Errorf("compress schemas: %w", err)
	}
	return f, nil
}
