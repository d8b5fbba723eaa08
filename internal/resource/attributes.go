package resource

import (
	"hash/maphash"
	"slices"
	"sync/atomic"
	"unique"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Attributes are an object's labels and selectable fields. Keys and values are
// interned over the whole process: a cluster has few distinct ones, and maps
// of strings would cost more than many objects' compressed bytes.
//
// The object's name and namespace are left out; they stand in its key.
type Attributes struct {
	labels []pair
	fields []pair
}

type pair struct{ key, value unique.Handle[string] }

const (
	fieldName      = "metadata.name"
	fieldNamespace = "metadata.namespace"
)

// NewAttributes interns a copy of both sets.
func NewAttributes(l labels.Set, f fields.Set) *Attributes {
	return &Attributes{labels: intern(l), fields: intern(f)}
}

func intern(set map[string]string) []pair {
	if len(set) == 0 {
		return nil
	}
	keys := make([]string, 0, len(set))
	for k := range set {
		if k != fieldName && k != fieldNamespace {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	pairs := make([]pair, len(keys))
	for i, k := range keys {
		pairs[i] = pair{handleOf(k), handleOf(set[k])}
	}
	return pairs
}

// recentHandles remembers handles of strings that come again and again: looking
// them up is a third of what reading an object's attributes costs. A place holds
// the last string of its hash.
var recentHandles [1 << 12]atomic.Pointer[recentHandle]

type recentHandle struct {
	text   string
	handle unique.Handle[string]
}

var handleSeed = maphash.MakeSeed()

func handleOf(text string) unique.Handle[string] {
	place := &recentHandles[maphash.String(handleSeed, text)%uint64(len(recentHandles))]
	if recent := place.Load(); recent != nil && recent.text == text {
		return recent.handle
	}
	handle := unique.Make(text)
	// The handle's copy: text may be part of a whole object.
	place.Store(&recentHandle{handle.Value(), handle})
	return handle
}

// Matches reports whether an entry is selected by both selectors. A nil
// selector selects everything. The entry must have attributes.
func (e *Entry) Matches(l labels.Selector, f fields.Selector) bool {
	if l != nil && !l.Empty() && !l.Matches(labelView{e.Attributes.labels}) {
		return false
	}
	return f == nil || f.Empty() || f.Matches(fieldView{e})
}

// labelView lets labels.Selector read interned pairs.
type labelView struct{ pairs []pair }

func (v labelView) Has(key string) bool { _, ok := find(v.pairs, key); return ok }
func (v labelView) Get(key string) string {
	value, _ := find(v.pairs, key)
	return value
}
func (v labelView) Lookup(key string) (string, bool) { return find(v.pairs, key) }

// fieldView lets fields.Selector read interned pairs, the name and the namespace.
type fieldView struct{ entry *Entry }

func (v fieldView) Has(key string) bool {
	if key == fieldName || key == fieldNamespace {
		return true
	}
	_, ok := find(v.entry.Attributes.fields, key)
	return ok
}

func (v fieldView) Get(key string) string {
	switch key {
	case fieldName:
		return v.entry.Name()
	case fieldNamespace:
		return v.entry.Namespace()
	}
	value, _ := find(v.entry.Attributes.fields, key)
	return value
}

func find(pairs []pair, key string) (string, bool) {
	for _, p := range pairs {
		if p.key.Value() == key {
			return p.value.Value(), true
		}
	}
	return "", false
}
