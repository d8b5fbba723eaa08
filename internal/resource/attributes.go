package resource

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"unique"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Attributes are an object's labels and selectable fields. Maps of strings would
// cost more than many objects' compressed bytes, and the collector would walk
// through them.
//
// The object's name and namespace are left out; they stand in its key.
type Attributes struct{ labels, fields set }

const (
	fieldName      = "metadata.name"
	fieldNamespace = "metadata.namespace"
)

// NewAttributes copies both sets.
func NewAttributes(l labels.Set, f fields.Set) *Attributes {
	a := &Attributes{}
	var scratch [setScratch]byte
	var values []byte
	if a.labels.keys, values = pack(l, scratch[:0]); len(values) > 0 {
		a.labels.values = shared(values)
	}
	// Some field is an object's own, such as its address.
	if a.fields.keys, values = pack(f, scratch[:0]); len(values) > 0 {
		a.fields.values = string(values)
	}
	return a
}

// set is a map of strings. Its keys, sorted, are one text, which all objects with
// the same keys share; the values stand in the keys' order in another. Each
// string has its length in front of it. An empty set has neither.
type set struct {
	keys   unique.Handle[string]
	values string
}

// setScratch is enough for the values, and for the keys, of most objects.
const setScratch = 512

// pack returns the two texts of a set, that of the values appended to scratch.
func pack(m map[string]string, scratch []byte) (unique.Handle[string], []byte) {
	var few [16]string
	keys := few[:0]
	for k := range m {
		if k != fieldName && k != fieldNamespace {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return unique.Handle[string]{}, nil
	}
	slices.Sort(keys)
	var space [setScratch]byte
	packed := space[:0]
	for _, k := range keys {
		packed = appendText(packed, k)
		scratch = appendText(scratch, m[k])
	}
	return unique.Make(string(packed)), scratch
}

func appendText(packed []byte, text string) []byte {
	return append(binary.AppendUvarint(packed, uint64(len(text))), text...)
}

// cut takes the first string off a text.
func cut(packed string) (text, rest string) {
	n, shift, i := 0, 0, 0
	for ; packed[i] >= 0x80; i++ {
		n |= int(packed[i]&0x7f) << shift
		shift += 7
	}
	n |= int(packed[i]) << shift
	i++
	return packed[i : i+n], packed[i+n:]
}

func (s set) get(key string) (string, bool) {
	if s.values == "" {
		return "", false
	}
	keys, values := s.keys.Value(), s.values
	for keys != "" {
		var k, v string
		k, keys = cut(keys)
		if v, values = cut(values); k == key {
			return v, true
		}
	}
	return "", false
}

// recent remembers texts that come again and again: objects of one workload have
// the same labels. A place holds the last text of its hash.
var recent [1 << 12]atomic.Pointer[string]

var recentSeed = maphash.MakeSeed()

func shared(text []byte) string {
	place := &recent[maphash.Bytes(recentSeed, text)%uint64(len(recent))]
	if last := place.Load(); last != nil && *last == string(text) {
		return *last
	}
	own := string(text)
	place.Store(&own)
	return own
}

// Matches reports whether an entry is selected by both selectors. A nil
// selector selects everything. The entry must have attributes.
func (e *Entry) Matches(l labels.Selector, f fields.Selector) bool {
	if l != nil && !l.Empty() && !l.Matches(labelView{e.Attributes.labels}) {
		return false
	}
	return f == nil || f.Empty() || f.Matches(fieldView{e})
}

// labelView lets labels.Selector read a set.
type labelView struct{ set set }

func (v labelView) Has(key string) bool { _, ok := v.set.get(key); return ok }
func (v labelView) Get(key string) string {
	value, _ := v.set.get(key)
	return value
}
func (v labelView) Lookup(key string) (string, bool) { return v.set.get(key) }

// fieldView lets fields.Selector read a set, the name and the namespace.
type fieldView struct{ entry *Entry }

func (v fieldView) Has(key string) bool {
	if key == fieldName || key == fieldNamespace {
		return true
	}
	_, ok := v.entry.Attributes.fields.get(key)
	return ok
}

func (v fieldView) Get(key string) string {
	switch key {
	case fieldName:
		return v.entry.Name()
	case fieldNamespace:
		return v.entry.Namespace()
	}
	value, _ := v.entry.Attributes.fields.get(key)
	return value
}
