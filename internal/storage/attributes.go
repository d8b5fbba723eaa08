package storage

import (
	"bytes"
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apiserver/pkg/storage"
	"sigs.k8s.io/json"

	"github.com/millrace/millrace/internal/resource"
)

// attributeCoverage is what the attributes of a resource's entries tell of its objects.
type attributeCoverage int

const (
	// coversAll are labels and all selectable fields.
	coversAll attributeCoverage = iota
	// coversLabels are labels, name and namespace: a custom resource's, whose versions
	// may select by different fields.
	coversLabels
	// coversNames are name and namespace: a custom resource's with a conversion webhook,
	// which may give an object other labels in each version.
	coversNames
)

// ConvertingCodec is a codec of objects that a webhook may convert to the version.
type ConvertingCodec interface {
	// ConvertsLabels reports whether one does, which may give an object other labels in
	// each version.
	ConvertsLabels() bool
	// Convert has stored objects converted, all together, so that Decode of them need not
	// wait. The error is that of Decode, or the context's.
	Convert(ctx context.Context, entries []*resource.Entry) error
	// Converted reports whether Decode of none of them waits.
	Converted(entries []*resource.Entry) bool
	// Excludes reports whether it is known without decoding that a selector does not
	// select an object as it is converted.
	Excludes(e *resource.Entry, l labels.Selector) bool
}

func coverageOf(newFunc func() runtime.Object, codec runtime.Codec) attributeCoverage {
	if _, custom := newFunc().(runtime.Unstructured); !custom {
		return coversAll
	}
	if c, ok := codec.(ConvertingCodec); ok && c.ConvertsLabels() {
		return coversNames
	}
	return coversLabels
}

// selectors are the parts of a predicate that attributes answer; whole says that
// they are all of it.
func (s *Store) selectors(p *storage.SelectionPredicate) (l labels.Selector, f fields.Selector, whole bool) {
	switch {
	case s.cfg.coverage == coversNames:
		if p.Field != nil && selectsOtherFields(p.Field) {
			return nil, nil, false
		}
		return nil, p.Field, p.Label == nil || p.Label.Empty()
	case s.cfg.coverage == coversAll || p.Field == nil || !selectsOtherFields(p.Field):
		return p.Label, p.Field, true
	}
	return p.Label, nil, false
}

// CoversPredicate reports whether attributes answer a predicate without a decoded object.
func (s *Store) CoversPredicate(p *storage.SelectionPredicate) bool {
	_, _, whole := s.selectors(p)
	return whole
}

// selectsOtherFields reports whether a selector asks for more than name and namespace.
func selectsOtherFields(f fields.Selector) bool {
	for _, r := range f.Requirements() {
		if r.Field != "metadata.name" && r.Field != "metadata.namespace" {
			return true
		}
	}
	return false
}

// ifSelected returns the decoded object if a predicate selects it, else nil. It does
// not decode what the attributes rule out; what they do not tell, the object itself
// is asked.
func (s *Store) ifSelected(p *storage.SelectionPredicate, e *resource.Entry, decode func() (runtime.Object, error)) (runtime.Object, error) {
	l, f, whole := s.selectors(p)
	if !e.Matches(l, f) || !whole && s.converter != nil && s.converter.Excludes(e, p.Label) {
		return nil, nil
	}
	obj, err := decode()
	if err != nil || whole {
		return obj, err
	}
	object := obj
	if shared, ok := obj.(*sharedObject); ok {
		object = shared.obj
	}
	if matched, err := p.Matches(object); err != nil || !matched {
		return nil, err
	}
	return obj, nil
}

// describeCustom reads the labels of a stored custom resource.
func describeCustom(e *resource.Entry) error {
	l, err := customLabels(e.Value)
	if err != nil {
		return fmt.Errorf("read labels: %w", err)
	}
	e.Attributes = resource.NewAttributes(l, nil)
	return nil
}

// cborPrefix begins stored objects in CBOR (RFC 8949, 3.4.6).
var cborPrefix = []byte{0xd9, 0xd9, 0xf7}

func customLabels(value []byte) (labels.Set, error) {
	var object struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
	}
	decode := json.UnmarshalCaseSensitivePreserveInts
	if bytes.HasPrefix(value, cborPrefix) {
		decode = cbor.Unmarshal
	} else if decode(value, &object) == nil {
		return object.Metadata.Labels, nil
	}
	// Metadata that is not as it should be is dropped, as when it is decoded.
	var content map[string]any
	if err := decode(value, &content); err != nil {
		return nil, err
	}
	metadata, _, _, err := objectmeta.GetObjectMetaWithOptions(content, objectmeta.ObjectMetaOptions{DropMalformedFields: true})
	if err != nil {
		return nil, err
	}
	return metadata.Labels, nil
}
