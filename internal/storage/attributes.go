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

// attributeCoverage says which selectors the attributes of a resource's entries can
// answer, without a decoded object.
type attributeCoverage int

const (
	// coversAll: selectors of labels and of all selectable fields.
	coversAll attributeCoverage = iota
	// coversLabels: selectors of labels, name and namespace. It is for custom
	// resources, whose versions may have different selectable fields.
	coversLabels
	// coversNames: selectors of name and namespace. It is for custom resources with a
	// conversion webhook, which may give an object other labels in each version.
	coversNames
)

// ConvertingCodec is a codec whose Decode may need a webhook to convert the object.
type ConvertingCodec interface {
	// ConvertsLabels reports whether there is a webhook. It may give an object other
	// labels in each version.
	ConvertsLabels() bool
	// Convert has the webhook convert stored objects, all together, so that Decode of
	// them does not wait. The error is that of Decode, or the context's.
	Convert(ctx context.Context, entries []*resource.Entry) error
	// Converted reports whether all objects are converted, so that Decode waits for none.
	Converted(entries []*resource.Entry) bool
	// Excludes reports whether the converted object is known not to match a selector. It
	// decodes nothing.
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

// selectors returns the parts of a predicate that attributes answer. whole reports
// whether these are the whole predicate.
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

// CoversPredicate reports whether attributes answer a whole predicate, without a decoded object.
func (s *Store) CoversPredicate(p *storage.SelectionPredicate) bool {
	_, _, whole := s.selectors(p)
	return whole
}

// selectsOtherFields reports whether a selector has fields besides name and namespace.
func selectsOtherFields(f fields.Selector) bool {
	for _, r := range f.Requirements() {
		if r.Field != "metadata.name" && r.Field != "metadata.namespace" {
			return true
		}
	}
	return false
}

// ifSelected returns the decoded object if a predicate selects it, else nil. It does
// not decode an object that the attributes exclude. It matches the object itself only
// if the attributes do not cover the predicate.
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

// customLabels reads the labels of a stored custom resource, in JSON or CBOR.
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
	// Malformed metadata is dropped, as Kubernetes does when it decodes the object.
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
