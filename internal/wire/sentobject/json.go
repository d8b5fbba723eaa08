package sentobject

import (
	"bytes"

	"github.com/millrace/millrace/internal/wire/storedjson"
)

// readJSON is Read for JSON. It reads up to the resource version and no further.
func readJSON(text []byte) (Object, bool) {
	l := storedjson.NewLexer(text)
	for _, name := range []string{"kind", "apiVersion"} {
		opened := name == "kind" && l.BeginObject() || name != "kind" && l.NextField()
		l.RefuseIf(!opened || string(l.Name()) != name)
		l.QuotedText()
	}
	l.RefuseIf(!l.NextField())
	body := l.Offset()
	l.RefuseIf(string(l.Name()) != "metadata")
	for ok := l.BeginObject(); ok; ok = l.NextField() {
		if string(l.Name()) != "resourceVersion" {
			l.Value()
			continue
		}
		revision := l.QuotedText()
		if l.Refused() {
			break
		}
		end := l.Offset() - 1
		return Object{
			format: JSON, around: [2][]byte{text[:body], nil},
			before: text[body : end-len(revision)], revision: revision, after: text[end:],
		}, true
	}
	return Object{}, false
}

// jsonMark is the annotation of the bookmark after initial events. The resource version
// stands in front of it.
var jsonMark = []byte(`,"annotations":{"` + initialEventsEnd + `":"true"}`)

// WithoutInitialEventsEnd returns the bookmark after initial events without its mark. It
// returns nil if there is no such mark.
func WithoutInitialEventsEnd(format Format, bookmark []byte) []byte {
	if format == Protobuf {
		return unmarkProtobuf(bookmark)
	}
	before, after, ok := bytes.Cut(bookmark, jsonMark)
	if !ok {
		return nil
	}
	return append(bytes.Clone(before), after...)
}
