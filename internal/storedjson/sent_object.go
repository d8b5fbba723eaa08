package storedjson

import "strconv"

// SentObject is the text of an object, or of a list, as an API server sends it alone: kind
// and version, metadata with a resource version, and the rest. It refers to the text that
// it was read from.
type SentObject struct {
	text []byte
	// version bounds the apiVersion without its quotes, and revision the resource version.
	version, revision span
	// body is where the field behind kind and version begins.
	body int
}

// span is a part of a text: text[from:to].
type span struct{ from, to int }

// ReadSentObject finds the parts of an object. It reports false for text that does not begin
// as API servers write the objects of built-in kinds. It reads up to the resource version
// and no further.
func ReadSentObject(text []byte) (SentObject, bool) {
	s, l := SentObject{text: text}, NewLexer(text)
	l.RefuseIf(!l.BeginObject() || string(l.Name()) != "kind")
	l.quotedSpan()
	l.RefuseIf(!l.NextField() || string(l.Name()) != "apiVersion")
	s.version = l.quotedSpan()
	l.RefuseIf(!l.NextField())
	s.body = l.Offset()
	l.RefuseIf(string(l.Name()) != "metadata")
	for ok := l.BeginObject(); ok; ok = l.NextField() {
		if string(l.Name()) == "resourceVersion" {
			s.revision = l.quotedSpan()
			return s, !l.Refused()
		}
		l.Value()
	}
	return SentObject{}, false
}

// quotedSpan reads a string and returns where it stands, without its quotes.
func (l *Lexer) quotedSpan() span {
	inside := l.Quoted()
	return span{l.at - 1 - len(inside), l.at - 1}
}

// APIVersion is the object's apiVersion.
func (s *SentObject) APIVersion() string { return string(s.text[s.version.from:s.version.to]) }

// Revision is the resource version, 0 if that is no number.
func (s *SentObject) Revision() int64 {
	revision, err := strconv.ParseInt(string(s.text[s.revision.from:s.revision.to]), 10, 64)
	if err != nil {
		return 0
	}
	return revision
}

// Append appends the text with another resource version.
func (s *SentObject) Append(dst []byte, revision int64) []byte {
	return s.appendFrom(dst, 0, revision)
}

// AppendItem appends the text with another resource version, and without kind and version:
// so the object stands in a list.
func (s *SentObject) AppendItem(dst []byte, revision int64) []byte {
	return s.appendFrom(append(dst, '{'), s.body, revision)
}

func (s *SentObject) appendFrom(dst []byte, from int, revision int64) []byte {
	dst = append(dst, s.text[from:s.revision.from]...)
	dst = strconv.AppendInt(dst, revision, 10)
	return append(dst, s.text[s.revision.to:]...)
}
