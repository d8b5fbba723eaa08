package storage

import (
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apiserver/pkg/storage"
)

func TestCustomLabels(t *testing.T) {
	inCBOR, err := cbor.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		stored string
		want   labels.Set
	}{
		"labels":        {`{"kind":"K","metadata":{"labels":{"a":"b","c":""},"name":"x"},"spec":{"metadata":{"labels":{"no":"no"}}}}`, labels.Set{"a": "b", "c": ""}},
		"none":          {`{"kind":"K","metadata":{"name":"x"}}`, nil},
		"null":          {`{"metadata":{"labels":null}}`, nil},
		"another case":  {`{"Metadata":{"labels":{"a":"b"}},"metadata":{"Labels":{"a":"b"}}}`, nil},
		"not text":      {`{"metadata":{"labels":{"a":1,"c":"d"}}}`, nil},
		"other trouble": {`{"metadata":{"generation":"x","labels":{"c":"d"}}}`, labels.Set{"c": "d"}},
		"CBOR":          {string(cborPrefix) + string(inCBOR), labels.Set{"a": "b"}},
	} {
		got, err := customLabels([]byte(c.stored))
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%s: got %v (%v), want %v", name, got, err, c.want)
		}
	}
	if got, err := customLabels([]byte("{broken")); err == nil {
		t.Errorf("customLabels returned %v for broken JSON, want an error", got)
	}
}

func TestSelectorsThatAttributesAnswer(t *testing.T) {
	label := labels.SelectorFromSet(labels.Set{"a": "b"})
	name, custom := fields.OneTermEqualSelector("metadata.name", "x"), fields.OneTermEqualSelector("spec.color", "red")
	for _, c := range []struct {
		coverage attributeCoverage
		label    labels.Selector
		field    fields.Selector
		// hasLabels says whether labels are selected by, whole is the result.
		hasLabels, whole bool
	}{
		{coversAll, label, custom, true, true},
		{coversLabels, label, name, true, true},
		{coversLabels, label, custom, true, false},
		{coversNames, label, fields.Everything(), false, false},
		{coversNames, labels.Everything(), fields.Everything(), false, true},
	} {
		s := &Store{cfg: Config{coverage: c.coverage}}
		p := storage.SelectionPredicate{Label: c.label, Field: c.field}
		if l, _, whole := s.selectors(&p); (l != nil) != c.hasLabels || whole != c.whole || s.CoversPredicate(&p) != c.whole {
			t.Errorf("coverage %d, %s, %s: got labels %v, whole %v", c.coverage, c.label, c.field, l, whole)
		}
	}
}
