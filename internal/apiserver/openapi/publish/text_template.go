package publish

import (
	"fmt"
	"strings"
)

// textTemplate is text from which the names of a custom resource are cut out.
type textTemplate []templatePart

// templatePart is a text and the name after it.
type templatePart struct {
	text string
	name nameForm
}

// newTextTemplate makes a template of an exemplar's text.
func newTextTemplate(text string) textTemplate {
	words := exemplarForms()
	var t textTemplate
	start := 0
next:
	for i := 0; i < len(text); {
		for _, w := range words {
			if strings.HasPrefix(text[i:], w.text) {
				t = append(t, templatePart{text[start:i], w.form})
				i += len(w.text)
				start = i
				continue next
			}
		}
		i++
	}
	return append(t, templatePart{text: text[start:]})
}

// size returns about the size of a filled template, in bytes.
func (t textTemplate) size() int {
	n := 0
	for _, p := range t {
		n += len(p.text) + 24
	}
	return n
}

// nameFiller writes templates for one custom resource. It computes the forms of its names
// once.
type nameFiller struct {
	forms [fieldsName + 1]string
}

func (n resourceNames) filler() *nameFiller {
	f := &nameFiller{}
	for w := range f.forms {
		f.forms[w] = n.form(nameForm(w))
	}
	return f
}

func (f *nameFiller) append(dst []byte, t textTemplate) []byte {
	for _, p := range t {
		dst = append(dst, p.text...)
		dst = append(dst, f.forms[p.name]...)
	}
	return dst
}

// ObjectEntries returns the entries of a JSON object without its braces.
func ObjectEntries(object []byte) (string, error) {
	if len(object) < 2 || object[0] != '{' || object[len(object)-1] != '}' {
		return "", fmt.Errorf("not a JSON object: %.40q", object)
	}
	return string(object[1 : len(object)-1]), nil
}
