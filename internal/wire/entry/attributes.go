package entry

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"unique"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Attributes are an object's labels and selectable fields, in a compact form. Maps of
// strings would take more memory than many objects' compressed bytes, and the garbage
// collector would have to scan them. In return a lookup walks all keys of the set.
//
// The object's name and namespace are left out, for its key has them.
type Attributes struct{ labels, fields set }

const (
	fieldName      = "metadata.name"
	fieldNamespace = "metadata.namespace"
)

// NewAttributes makes attributes of two sets, which it copies.
func NewAttributes(l labels.Set, f fields.Set) *Attributes {
	a := &Attributes{}
	var scratch [setScratch]byte
	var values []byte
	if a.labels.keys, values = encodeSet(l, scratch[:0]); len(values) > 0 {
		a.labels.values = intern(values)
	}
	// Values of fields are not interned: most objects have some of their own, such as an
	// address.
	if a.fields.keys, values = encodeSet(f, scratch[:0]); len(values) > 0 {
		a.fields.values = string(values)
	}
	return a
}

// Scan is what a scanner reads of an object's stored bytes without decoding the object.
type Scan struct {
	Labels labels.Set
	Fields fields.Set
	// UID is empty if the object has none. It may be a part of the stored bytes.
	UID []byte
}

// set is a map of strings in two texts. One has the sorted keys, which all objects with the
// same keys share. The other has the values in the order of their keys. In both texts, each
// string follows its length. An empty set has neither text.
type set struct {
	keys   unique.Handle[string]
	values string
}

// setScratch is the size of buffers for keys and for values. It suffices for most objects.
const setScratch = 512

// encodeSet returns the keys' text, and the values' text appended to scratch.
func encodeSet(m map[string]string, scratch []byte) (unique.Handle[string], []byte) {
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

// splitText splits off the first string of a text.
func splitText(packed string) (text, rest string) {
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
		k, keys = splitText(keys)
		if v, values = splitText(values); k == key {
			return v, true
		}
	}
	return "", false
}

// internTable lets equal texts share memory: objects of one workload have the same labels.
// A slot holds the last text with its hash. It is bounded, and needs no lock.
var internTable [1 << 12]atomic.Pointer[string]

var internSeed = maphash.MakeSeed()

// intern returns text as a string. It returns the string of an earlier call if that is
// still in the table.
func intern(text []byte) string {
	slot := &internTable[maphash.Bytes(internSeed, text)%uint64(len(internTable))]
	if last := slot.Load(); last != nil && *last == string(text) {
		return *last
	}
	own := string(text)
	slot.Store(&own)
	return own
}

// Matches reports whether both selectors select an entry. A nil selector selects
// everything. The entry must have attributes, unless both are nil or empty.
func (e *Entry) Matches(l labels.Selector, f fields.Selector) bool {
	if l != nil && !l.Empty() && !l.Matches(labelView{e.Attributes.labels}) {
		return false
	}
	return f == nil || f.Empty() || f.Matches(fieldView{e})
}

// labelView is a set as labels.Selector reads it.
type labelView struct{ set set }

func (v labelView) Has(key string) bool { _, ok := v.set.get(key); return ok }
func (v labelView) Get(key string) string {
	value, _ := v.set.get(key)
	return value
}
func (v labelView) Lookup(key string) (string, bool) { return v.set.get(key) }

// fieldView is an entry's fields, name and namespace as fields.Selector reads them.
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
