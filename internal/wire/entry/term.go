package entry

// Term names one label, one selectable field or one shard key. A requirement of a
// selector is about one term.
type Term struct {
	name string
	kind termKind
	// key is set with termShard only.
	key ShardKey
}

type termKind uint8

const (
	termLabel termKind = iota
	termField
	termShard
)

// LabelTerm returns the term of a label's key.
func LabelTerm(key string) Term { return Term{name: key} }

// FieldTerm returns the term of a selectable field's path.
func FieldTerm(path string) Term { return Term{name: path, kind: termField} }

// ShardTerm returns the term of a shard key.
func ShardTerm(key ShardKey) Term { return Term{kind: termShard, key: key} }

// ShardKey returns the key of a shard's term, and whether the term is one.
func (t Term) ShardKey() (ShardKey, bool) { return t.key, t.kind == termShard }

// String returns text such as "label app", "field spec.nodeName" or "shard
// object.metadata.uid".
func (t Term) String() string {
	switch t.kind {
	case termField:
		return "field " + t.name
	case termShard:
		return "shard " + t.key.String()
	}
	return "label " + t.name
}

// Value returns an entry's value of a label or field, and whether the entry has one. An
// absent field has the value "", as selectors see it. The entry must have attributes. The
// term must not be that of a shard key or of the field metadata.namespace.
func (t Term) Value(e *Entry) (value string, ok bool) {
	if t.kind == termLabel {
		return e.Attributes.labels.get(t.name)
	}
	if t.name == fieldName {
		return e.Name(), true
	}
	value, _ = e.Attributes.fields.get(t.name)
	return value, true
}
