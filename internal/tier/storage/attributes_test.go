package storage

import (
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apiserver/pkg/storage"
)

func TestScanCustom(t *testing.T) {
	inCBOR, err := cbor.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}, "uid": "1-2"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		stored string
		labels labels.Set
		uid    string
	}{
		"labels":        {`{"kind":"K","metadata":{"labels":{"a":"b","c":""},"name":"x","uid":"1"},"spec":{"metadata":{"labels":{"no":"no"},"uid":"2"}}}`, labels.Set{"a": "b", "c": ""}, "1"},
		"none":          {`{"kind":"K","metadata":{"name":"x"}}`, nil, ""},
		"null":          {`{"metadata":{"labels":null,"uid":null}}`, nil, ""},
		"another case":  {`{"Metadata":{"labels":{"a":"b"}},"metadata":{"Labels":{"a":"b"},"UID":"1"}}`, nil, ""},
		"not text":      {`{"metadata":{"labels":{"a":1,"c":"d"},"uid":"1"}}`, nil, "1"},
		"no UID":        {`{"metadata":{"labels":{"a":"b"},"uid":1}}`, labels.Set{"a": "b"}, ""},
		"other trouble": {`{"metadata":{"generation":"x","labels":{"c":"d"},"uid":"\u0031"}}`, labels.Set{"c": "d"}, "1"},
		"no metadata":   {string(cborPrefix) + "\xa1\x61a\x61a", nil, ""},
		"null in CBOR":  {string(cborPrefix) + "\xf6", nil, ""},
		"CBOR":          {string(cborPrefix) + string(inCBOR), labels.Set{"a": "b"}, "1-2"},
	} {
		got, err := scanCustom([]byte(c.stored))
		if err != nil || !maps.Equal(got.Labels, c.labels) || string(got.UID) != c.uid {
			t.Errorf("%s: got %v and %q (%v), want %v and %q", name, got.Labels, got.UID, err, c.labels, c.uid)
		}
	}
	for name, canonical := range map[string]bool{"labels": true, "none": true, "null": false, "not text": false} {
		stored := map[string]string{
			"labels": `{"metadata":{"labels":{"a":"b"},"uid":"1"},"spec":{"x":[1,{"y":"}"}]}}` + "\n", "none": `{"spec":{}}`,
			"null": `{"metadata":{"labels":null}}`, "not text": `{"metadata":{"labels":{"a":1}}}`,
		}[name]
		if _, ok := scanCanonical([]byte(stored)); ok != canonical {
			t.Errorf("%s: canonical is not %v", name, canonical)
		}
	}
	if got, err := scanCustom([]byte("{broken")); err == nil {
		t.Errorf("scanCustom returned %v for broken JSON, want an error", got)
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
		if sel := s.selectors(&p); (sel.labels != nil) != c.hasLabels || sel.whole != c.whole || s.CoversPredicate(&p) != c.whole {
			t.Errorf("coverage %d, %s, %s: got labels %v, whole %v", c.coverage, c.label, c.field, sel.labels, sel.whole)
		}
	}
}
