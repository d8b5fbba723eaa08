package openapi

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/millrace/millrace/internal/crd"
	"github.com/millrace/millrace/internal/encode"
	"github.com/millrace/millrace/internal/storedjson"
)

// Transcoder writes the entries of a definition from its stored text, which takes a
// twentieth of what decoding and converting it takes. Its memory is used again.
type Transcoder struct {
	stored     storedSchemas
	transcoder schemaTranscoder
	schemas    []byte
	paths      lazyPaths
}

// lazyPaths are those of some versions, as long as they are not written: they are
// quicker made than inflated.
type lazyPaths []versionPaths

type versionPaths struct {
	template *PathTemplate
	names    resourceNames
}

func (p lazyPaths) append(dst []byte) []byte {
	for i := range p {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = p[i].names.filler().append(dst, p[i].template.paths)
	}
	return dst
}

var transcoders = sync.Pool{New: func() any { return new(Transcoder) }}

// maxPooledSchemas is how many bytes of schemas a writer may have written for its
// memory to be kept.
const maxPooledSchemas = 1 << 20

func (w *Transcoder) release() {
	w.stored.Lexer, w.transcoder.schemaTree = storedjson.Lexer{}, nil
	if cap(w.schemas) <= maxPooledSchemas {
		transcoders.Put(w)
	}
}

// writeStored writes all served versions of a definition, or the one that is named.
// It reports whether that can be done: if not, Kubernetes' code has to.
func (w *Transcoder) writeStored(s *Server, d *crd.Definition, version string, molds func(Shape) (*PathTemplate, error)) (bool, error) {
	written := false
	err := s.config.Catalog.Stored(d.Name, func(revision int64, stored []byte) (err error) {
		now := s.config.Catalog.Get(d.Name)
		if now == nil || now.Spec != d.Spec || now.Revision != revision {
			return errChanged
		}
		w.schemas, w.paths = w.schemas[:0], w.paths[:0]
		if !w.stored.read(stored, version) {
			return nil
		}
		for i := range now.Versions {
			v := &now.Versions[i]
			if !v.Served || version != "" && v.Name != version {
				continue
			}
			if written, err = w.version(now, v, molds); err != nil || !written {
				return err
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errChanged) {
		return false, nil // who decodes it finds out
	}
	return written, err
}

func (w *Transcoder) version(d *crd.Definition, v *crd.Version, molds func(Shape) (*PathTemplate, error)) (bool, error) {
	n := resourceNames{group: d.Group, version: v.Name, plural: d.Wanted.Plural, kind: d.Wanted.Kind, listKind: d.Wanted.ListKind}
	schema, found := w.stored.of(v.Name)
	if !found || !n.isPlain() || !w.stored.structural(schema, true) {
		return false, nil
	}
	shape := ShapeOf(d.Scope, *v)
	if len(v.SelectableFields) > 0 {
		n.fields = selectableJSON(v.SelectableFields)
	}
	m, err := molds(shape)
	if err != nil {
		return false, err
	}
	if len(w.schemas) > 0 {
		w.schemas = append(w.schemas, ',')
	}
	w.schemas = n.filler().append(w.schemas, m.list)
	w.schemas = append(w.schemas, `,"`+ModelPrefix(n.group, n.version)+n.kind+`":`...)
	w.transcoder = schemaTranscoder{schemaTree: &w.stored.schemaTree, root: m.builtin.encodedRoot, embedded: m.builtin.encodedEmbedded, v2: m.v2}
	w.schemas = w.transcoder.kind(w.schemas, schema, n.encodedIdentity(shape.selectable))
	w.paths = append(w.paths, versionPaths{m, n})
	return true, nil
}

// direct makes a fragment from a definition's text, of all served versions or the one
// that is named. It reports whether that can be done.
func (s *Server) direct(d *crd.Definition, version string, f form, molds func(Shape) (*PathTemplate, error)) (made fragment, can bool, err error) {
	w := transcoders.Get().(*Transcoder)
	defer w.release()
	if can, err = w.writeStored(s, d, version, molds); err != nil || !can {
		return fragment{}, false, err
	}
	if p := f.proto(); p != nil {
		made, err = p.fragment(w.text(p))
	} else {
		made, err = w.fragment()
	}
	return made, true, err
}

// fragment is that of what was written, as JSON. Of its paths it keeps the names.
func (w *Transcoder) fragment() (fragment, error) {
	f, err := newFragment(nil, w.schemas)
	if err == nil {
		f.paths = encode.NewPieceOf(slices.Clone(w.paths).append)
	}
	return f, err
}

// text is what was written, for a protobuf form.
func (w *Transcoder) text(p *Proto) Entries {
	if binary := p.binaryPaths(w.paths); binary != nil {
		return Entries{Schemas: w.schemas, binaryPaths: binary}
	}
	return Entries{Paths: w.paths.append(nil), Schemas: w.schemas}
}

// renamedTemplates are a base's, in which references are to what the merger has
// renamed.
type renamedTemplates struct {
	mu struct {
		sync.Mutex
		byShape map[Shape]*PathTemplate
	}
}

func (b *base) template(all *PathTemplates, s Shape) (*PathTemplate, error) {
	made, err := all.V2(s)
	if err != nil || b.renamed == nil {
		return made, err
	}
	b.templates.mu.Lock()
	defer b.templates.mu.Unlock()
	if found := b.templates.mu.byShape[s]; found != nil {
		return found, nil
	}
	if b.templates.mu.byShape == nil {
		b.templates.mu.byShape = map[Shape]*PathTemplate{}
	}
	b.templates.mu.byShape[s] = made.Rename(b.renamed)
	return b.templates.mu.byShape[s], nil
}

// Rename is the mold of what is renamed in all that it writes from texts.
func (m *PathTemplate) Rename(r *strings.Replacer) *PathTemplate {
	renamed := *m
	renamed.proto = new(lazyProtoTemplate)
	renamed.paths, renamed.list = m.paths.rename(r), m.list.rename(r)
	renamed.builtin.encodedRoot = renameProperties(m.builtin.encodedRoot, r)
	renamed.builtin.encodedEmbedded = renameProperties(m.builtin.encodedEmbedded, r)
	return &renamed
}

// rename needs no part before or behind: no name stands in a reference to what
// is shared.
func (t textTemplate) rename(r *strings.Replacer) textTemplate {
	renamed := make(textTemplate, len(t))
	for i, p := range t {
		renamed[i] = templatePart{r.Replace(p.text), p.name}
	}
	return renamed
}

func renameProperties(all []encodedProperty, r *strings.Replacer) []encodedProperty {
	renamed := make([]encodedProperty, len(all))
	for i, n := range all {
		renamed[i] = encodedProperty{n.name, r.Replace(n.schema)}
	}
	return renamed
}
