package resource

// Term is one label or one selectable field: what a part of a selector asks for.
type Term struct {
	name  string
	field bool
}

// LabelTerm is a label's key.
func LabelTerm(key string) Term { return Term{name: key} }

// FieldTerm is a selectable field's path.
func FieldTerm(path string) Term { return Term{name: path, field: true} }

// String names the term as selectors do: "label app", "field spec.nodeName".
func (t Term) String() string {
	if t.field {
		return "field " + t.name
	}
	return "label " + t.name
}

// Value returns what an entry with attributes has for the term. A field that it
// has not is "", as selectors see it.
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
