package storedjson

import "slices"

// Object is the fields of a JSON object in their order. It is for objects with few
// fields, most of which the caller looks at: a name is found by comparing all.
type Object []Field

// Field is a name without quotes and the text of its value. Both are parts of the text
// that the object was read from.
type Field struct{ Name, Value []byte }

// Get returns the text of a field. It returns nil if the field is missing or null.
func (o Object) Get(name string) []byte {
	if i := o.index(name); i >= 0 && string(o[i].Value) != "null" {
		return o[i].Value
	}
	return nil
}

func (o Object) index(name string) int {
	return slices.IndexFunc(o, func(f Field) bool { return string(f.Name) == name })
}

// Fields returns the fields of an object. It reports false if the text is not canonical.
func Fields(text []byte) (Object, bool) {
	l := NewLexer(text)
	var fields Object
	for ok := l.BeginObject(); ok; ok = l.NextField() {
		name := l.Name()
		value := l.Value()
		l.RefuseIf(fields.index(string(name)) >= 0)
		fields = append(fields, Field{name, value})
	}
	return fields, l.Done()
}

// Items returns the texts of a list's items. It reports false if the text is not
// canonical.
func Items(text []byte) ([][]byte, bool) {
	l := NewLexer(text)
	var items [][]byte
	for ok := l.BeginList(); ok; ok = l.NextItem() {
		items = append(items, l.Value())
	}
	return items, l.Done()
}
