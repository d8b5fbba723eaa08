package resource

// Term names one label or one selectable field. A requirement of a selector is about one
// term.
type Term struct {
	name  string
	field bool
}

// LabelTerm returns the term of a label's key.
func LabelTerm(key string) Term { return Term{name: key} }

// FieldTerm returns the term of a selectable field's path.
func FieldTerm(path string) Term { return Term{name: path, field: true} }

// String returns text such as "label app" or "field spec.nodeName".
func (t Term) String() string {
	if t.field {
		return "field " + t.name
	}
	return "label " + t.name
}

// Value returns an entry's value of the term, and whether the entry has one. An absent
// field has the value "", as selectors see it. The entry must have attributes.
func (t Term) Value(e *Entry) (value string, ok bool) {
	if !t.field {
		return e.Attributes.labels.get(t.name)
	}
	if t.name == fieldName {
		return e.Name(), true
	}
	value, _ = e.Attributes.fields.get(t.name)
	return value, true
}
