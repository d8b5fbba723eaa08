package storage

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/entry"
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
	// coversFewFields: selectors of labels, name, namespace and the fields of
	// Config.Verbatim.
	coversFewFields
)

// ConvertingCodec is a codec whose Decode may need a webhook to convert the object.
type ConvertingCodec interface {
	// ConvertsLabels reports whether there is a webhook, which may give an object other
	// labels in each version. The other methods are called only if there is one.
	ConvertsLabels() bool
	// Convert lets the webhook convert stored objects, all together, so that Decode of them
	// does not wait. It returns Decode's error, or the context's.
	Convert(ctx context.Context, entries []*entry.Entry) error
	// Converted reports whether all objects are converted, so that Decode waits for none.
	Converted(entries []*entry.Entry) bool
	// Excludes reports whether the converted object is known not to match a selector. It
	// decodes nothing.
	Excludes(e *entry.Entry, l labels.Selector) bool
}

func coverageOf(cfg *Config) attributeCoverage {
	if cfg.Verbatim != nil {
		return coversFewFields
	}
	if _, custom := cfg.New().(runtime.Unstructured); !custom {
		return coversAll
	}
	if c, ok := cfg.Codec.(ConvertingCodec); ok && c.ConvertsLabels() {
		return coversNames
	}
	return coversLabels
}

// selection is a predicate, and the parts of it that attributes answer.
type selection struct {
	predicate *storage.SelectionPredicate
	// labels, fields and shard are the parts. Nil selects everything.
	labels labels.Selector
	fields fields.Selector
	shard  *entry.Shard
	// whole says that the parts are the whole predicate.
	whole bool
}

// selection returns the selection of a predicate. The error is entry.ErrShard for a shard that
// only Kubernetes' own code understands.
func (s *Store) selection(p *storage.SelectionPredicate) (selection, error) {
	sel := s.selectors(p)
	// Without the feature gate, the selector is ignored.
	if utilfeature.DefaultFeatureGate.Enabled(features.ShardedListAndWatch) {
		var err error
		if sel.shard, err = entry.NewShard(p.ShardSelector); err != nil {
			return selection{}, err
		}
	}
	return sel, nil
}

// selectors returns a predicate's selection without its shard.
func (s *Store) selectors(p *storage.SelectionPredicate) selection {
	switch {
	case s.cfg.coverage == coversNames:
		if p.Field != nil && selectsOtherFields(p.Field) {
			return selection{predicate: p}
		}
		return selection{predicate: p, fields: p.Field, whole: p.Label == nil || p.Label.Empty()}
	case s.cfg.coverage == coversAll || p.Field == nil || !selectsOtherFields(p.Field),
		s.cfg.coverage == coversFewFields && s.cfg.Verbatim.covers(p.Field):
		return selection{predicate: p, labels: p.Label, fields: p.Field, whole: true}
	}
	return selection{predicate: p, labels: p.Label}
}

// CoversPredicate reports whether attributes answer a predicate without a decoded object. It
// does not look at the predicate's shard.
func (s *Store) CoversPredicate(p *storage.SelectionPredicate) bool { return s.selectors(p).whole }

// matches reports whether attributes do not exclude an entry.
func (sel *selection) matches(e *entry.Entry) bool {
	return sel.shard.Holds(e) && e.Matches(sel.labels, sel.fields)
}

// empty reports whether the predicate selects everything.
func (sel *selection) empty() bool { return sel.shard == nil && sel.predicate.Empty() }

// restrict makes a query select what attributes can select.
func (sel *selection) restrict(q *cache.Query) {
	q.Labels, q.Fields, q.Shard = sel.labels, sel.fields, sel.shard
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
func (s *Store) ifSelected(sel *selection, e *entry.Entry, decode func() (runtime.Object, error)) (runtime.Object, error) {
	if !sel.matches(e) || !sel.whole && s.converter != nil && s.converter.Excludes(e, sel.predicate.Label) {
		return nil, nil
	}
	obj, err := decode()
	if err != nil || sel.whole {
		return obj, err
	}
	object := obj
	if shared, ok := obj.(*sharedObject); ok {
		object = shared.obj
	}
	if matched, err := sel.predicate.Matches(object); err != nil || !matched {
		return nil, err
	}
	return obj, nil
}

// describer sets what the cache knows of an entry besides its bytes.
type describer struct {
	// hashesUIDs says that shards are served: their selectors need the hash of the UID.
	hashesUIDs bool
}

func newDescriber() describer {
	return describer{hashesUIDs: utilfeature.DefaultFeatureGate.Enabled(features.ShardedListAndWatch)}
}

// describeCustom reads the labels and the UID of a stored custom resource.
func (d describer) describeCustom(e *entry.Entry) error {
	scan, err := scanCustom(e.Value)
	if err != nil {
		return fmt.Errorf("read labels: %w", err)
	}
	d.describe(e, scan)
	return nil
}

// describe sets what a scan of an entry has found.
func (d describer) describe(e *entry.Entry, scan entry.Scan) {
	e.Attributes = entry.NewAttributes(scan.Labels, scan.Fields)
	if d.hashesUIDs {
		e.UIDHash = entry.HashShardKey(scan.UID)
	}
}

// hasOnlyMetadata reports whether Kubernetes selects the objects of a kind by their metadata
// alone. A kind whose registry says nothing has one of the two functions that are compared.
func hasOnlyMetadata(attributes storage.AttrFunc) bool {
	pointer := reflect.ValueOf(attributes).Pointer()
	return pointer == reflect.ValueOf(storage.DefaultNamespaceScopedAttr).Pointer() || pointer == reflect.ValueOf(storage.DefaultClusterScopedAttr).Pointer()
}
