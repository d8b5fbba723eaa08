package publish

import (
	"slices"
	"sync"

	"github.com/millrace/millrace/internal/apiserver/crd"
	"github.com/millrace/millrace/internal/wire/storedjson"
)

// Publisher writes the entries of one definition at a time from its stored text. That takes
// a twentieth of the time of decoding and converting the definition.
//
// It comes from a pool, and its memory is used again. A Publisher is not safe for concurrent
// use.
type Publisher struct {
	stored    storedSchemas
	publisher schemaPublisher
	schemas   []byte
	paths     Paths
}

// Paths are the path entries of some versions before they are written. To write them again
// takes less time than to inflate them, so they are stored in this form.
type Paths []versionPaths

// versionPaths are the paths of one version of a definition.
type versionPaths struct {
	template *PathTemplate
	names    resourceNames
}

// Append appends the entries as JSON.
func (p Paths) Append(dst []byte) []byte {
	for i := range p {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = p[i].names.filler().append(dst, p[i].template.paths)
	}
	return dst
}

// NewPublisher returns a Publisher that the caller must release.
func NewPublisher() *Publisher { return publishers.Get().(*Publisher) }

var publishers = sync.Pool{New: func() any { return new(Publisher) }}

// maxPooledSchemas is the size of the schemas, in bytes, up to which a Publisher returns
// to the pool.
const maxPooledSchemas = 1 << 20

// Release ends the use of the Publisher and of all that it returned but Paths.
func (t *Publisher) Release() {
	t.stored.Lexer, t.publisher.schemaTree = storedjson.Lexer{}, nil
	if cap(t.schemas) <= maxPooledSchemas {
		publishers.Put(t)
	}
}

// Write writes all served versions of a definition, or only the one that is named, from
// its stored text. It reports false if the definition must be decoded and published by
// Kubernetes' code. Templates finds the template of a shape.
func (t *Publisher) Write(stored []byte, d *crd.Definition, version string, templates func(Shape) (*PathTemplate, error)) (written bool, err error) {
	t.schemas, t.paths = t.schemas[:0], t.paths[:0]
	if !t.stored.read(stored, version) {
		return false, nil
	}
	for i := range d.Versions {
		v := &d.Versions[i]
		if !v.Served || version != "" && v.Name != version {
			continue
		}
		if written, err = t.version(d, v, templates); err != nil || !written {
			return false, err
		}
	}
	return written, nil
}

// version writes one version.
func (t *Publisher) version(d *crd.Definition, v *crd.Version, templates func(Shape) (*PathTemplate, error)) (bool, error) {
	n := resourceNames{group: d.Group, version: v.Name, plural: d.Wanted.Plural, kind: d.Wanted.Kind, listKind: d.Wanted.ListKind}
	schema, found := t.stored.nodeFor(v.Name)
	if !found || !n.isPlain() || !t.stored.structural(schema, true) {
		return false, nil
	}
	shape := ShapeOf(d.Scope, *v)
	if len(v.SelectableFields) > 0 {
		n.fields = selectableJSON(v.SelectableFields)
	}
	template, err := templates(shape)
	if err != nil {
		return false, err
	}
	if len(t.schemas) > 0 {
		t.schemas = append(t.schemas, ',')
	}
	t.schemas = n.filler().append(t.schemas, template.list)
	t.schemas = append(t.schemas, `,"`+ModelPrefix(n.group, n.version)+n.kind+`":`...)
	t.publisher = schemaPublisher{schemaTree: &t.stored.schemaTree, root: template.builtin.encodedRoot, embedded: template.builtin.encodedEmbedded, v2: template.v2}
	t.schemas = t.publisher.kind(t.schemas, schema, n.encodedIdentity(shape.selectable))
	t.paths = append(t.paths, versionPaths{template, n})
	return true, nil
}

// Schemas returns the schema entries that Write has written. They are valid until Release.
func (t *Publisher) Schemas() []byte { return t.schemas }

// Paths returns the path entries that Write has written.
func (t *Publisher) Paths() Paths { return slices.Clone(t.paths) }

// Entries returns what Write has written, to be encoded as p. It is valid until Release.
func (t *Publisher) Entries(p *Proto) Entries {
	if binary := p.binaryPaths(t.paths); binary != nil {
		return Entries{Schemas: t.schemas, binaryPaths: binary}
	}
	return Entries{Paths: t.paths.Append(nil), Schemas: t.schemas}
}
