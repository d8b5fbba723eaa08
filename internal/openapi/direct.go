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

// writer writes the entries of a definition from its stored text, which takes a
// twentieth of what decoding and converting it takes. Its memory is used again.
type writer struct {
	stored  storedSchemas
	press   press
	schemas []byte
	paths   paths
}

// paths are those of some versions, as long as they are not written: they are
// quicker made than inflated.
type paths []pathsOf

type pathsOf struct {
	mold  *mold
	names names
}

func (p paths) append(dst []byte) []byte {
	for i := range p {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = p[i].names.filler().append(dst, p[i].mold.paths)
	}
	return dst
}

var writers = sync.Pool{New: func() any { return new(writer) }}

// largestWriter is how many bytes of schemas a writer may have written for its
// memory to be kept.
const largestWriter = 1 << 20

func (w *writer) release() {
	w.stored.Lexer, w.press.tree = storedjson.Lexer{}, nil
	if cap(w.schemas) <= largestWriter {
		writers.Put(w)
	}
}

// write writes all served versions of a definition, or the one that is named.
// It reports whether that can be done: if not, Kubernetes' code has to.
func (w *writer) write(s *Server, d *crd.Definition, version string, molds func(shape) (*mold, error)) (bool, error) {
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

func (w *writer) version(d *crd.Definition, v *crd.Version, molds func(shape) (*mold, error)) (bool, error) {
	n := names{group: d.Group, version: v.Name, plural: d.Wanted.Plural, kind: d.Wanted.Kind, list: d.Wanted.ListKind}
	schema, found := w.stored.of(v.Name)
	if !found || !n.plain() || !w.stored.structural(schema, true) {
		return false, nil
	}
	shape := shapeOf(d.Scope, *v)
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
	w.schemas = append(w.schemas, `,"`+modelPrefix(n.group, n.version)+n.kind+`":`...)
	w.press = press{tree: &w.stored.tree, root: m.natives.rootTexts, embedded: m.natives.embeddedTexts, v2: m.v2}
	w.schemas = w.press.kind(w.schemas, schema, n.identity(shape.selectable))
	w.paths = append(w.paths, pathsOf{m, n})
	return true, nil
}

// direct makes a fragment from a definition's text, of all served versions or the one
// that is named. It reports whether that can be done.
func (s *Server) direct(d *crd.Definition, version string, f form, molds func(shape) (*mold, error)) (made fragment, can bool, err error) {
	w := writers.Get().(*writer)
	defer w.release()
	if can, err = w.write(s, d, version, molds); err != nil || !can {
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
func (w *writer) fragment() (fragment, error) {
	f, err := compressed(nil, w.schemas)
	if err == nil {
		f.paths = encode.NewLazyPiece(slices.Clone(w.paths).append)
	}
	return f, err
}

// text is what was written, for a protobuf form.
func (w *writer) text(p *protoForm) text {
	if binary := p.binaryPaths(w.paths); binary != nil {
		return text{schemas: w.schemas, binaryPaths: binary}
	}
	return text{paths: w.paths.append(nil), schemas: w.schemas}
}

// renamedMolds are a base's, in which references are to what the merger has
// renamed.
type renamedMolds struct {
	mu struct {
		sync.Mutex
		byShape map[shape]*mold
	}
}

func (b *base) mold(all *molds, s shape) (*mold, error) {
	made, err := all.v2(s)
	if err != nil || b.renamed == nil {
		return made, err
	}
	b.molds.mu.Lock()
	defer b.molds.mu.Unlock()
	if found := b.molds.mu.byShape[s]; found != nil {
		return found, nil
	}
	if b.molds.mu.byShape == nil {
		b.molds.mu.byShape = map[shape]*mold{}
	}
	b.molds.mu.byShape[s] = made.rename(b.renamed)
	return b.molds.mu.byShape[s], nil
}

// rename is the mold of what is renamed in all that it writes from texts.
func (m *mold) rename(r *strings.Replacer) *mold {
	renamed := *m
	renamed.proto = new(protoPaths)
	renamed.paths, renamed.list = m.paths.rename(r), m.list.rename(r)
	renamed.natives.rootTexts = renameTexts(m.natives.rootTexts, r)
	renamed.natives.embeddedTexts = renameTexts(m.natives.embeddedTexts, r)
	return &renamed
}

// rename needs no part before or behind: no name stands in a reference to what
// is shared.
func (t template) rename(r *strings.Replacer) template {
	renamed := make(template, len(t))
	for i, p := range t {
		renamed[i] = part{r.Replace(p.text), p.word}
	}
	return renamed
}

func renameTexts(all []nativeText, r *strings.Replacer) []nativeText {
	renamed := make([]nativeText, len(all))
	for i, n := range all {
		renamed[i] = nativeText{n.name, r.Replace(n.schema)}
	}
	return renamed
}
