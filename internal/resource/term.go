package resource

import "unique"

// Term is one label or one selectable field: what a part of a selector asks for.
type Term struct {
	name  unique.Handle[string]
	field bool
}

// LabelTerm is a label's key.
func LabelTerm(key string) Term { return Term{name: unique.Make(key)} }

// FieldTerm is a selectable field's path.
func FieldTerm(path string) Term { return Term{name: unique.Make(path), field: true} }

// String names the term as selectors do: "label app", "field spec.nodeName".
func (t Term) String() string {
	if t.field {
		return "field " + t.name.Value()
	}
	return "label " + t.name.Value()
}

// Value returns what an entry with attributes has for the term. A field that it
// has not is "", as selectors see it.
func (t Term) Value(e *Entry) (value string, ok bool) {
	if !t.field {
		return lookup(e.Attributes.labels, t.name)
	}
	if t.name.Value() == fieldName {
		return e.Name(), true
	}
	value, _ = lookup(e.Attributes.fields, t.name)
	return value, true
}

func lookup(pairs []pair, key unique.Handle[string]) (string, bool) {
	for _, p := range pairs {
		if p.key == key {
			return p.value.Value(), true
		}
	}
	return "", false
}
