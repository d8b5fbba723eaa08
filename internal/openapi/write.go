package openapi

import (
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// appendSchema appends the JSON of a schema. What most schemas are made of is
// written here, in a tenth of the time; the rest is left to its own encoder.
func appendSchema(dst []byte, s *spec.Schema) ([]byte, error) {
	object := objectWriter{dst: append(dst, '{')}
	rest := *s
	if s.Description != "" {
		object.field("description")
		object.text(s.Description)
		rest.Description = ""
	}
	if len(s.Type) == 1 {
		object.field("type")
		object.text(s.Type[0])
		rest.Type = nil
	}
	if s.Format != "" {
		object.field("format")
		object.text(s.Format)
		rest.Format = ""
	}
	var err error
	if s.Items != nil && s.Items.Schema != nil {
		object.field("items")
		if object.dst, err = appendSchema(object.dst, s.Items.Schema); err != nil {
			return nil, err
		}
		rest.Items = nil
	}
	if len(s.Properties) > 0 {
		object.field("properties")
		for i, name := range sortedKeys(s.Properties) {
			object.dst = append(object.dst, "{,"[min(i, 1)])
			object.text(name)
			object.dst = append(object.dst, ':')
			property := s.Properties[name]
			if object.dst, err = appendSchema(object.dst, &property); err != nil {
				return nil, err
			}
		}
		object.dst = append(object.dst, '}')
		rest.Properties = nil
	}
	if !reflect.ValueOf(&rest).Elem().IsZero() {
		own, err := rest.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("encode schema: %w", err)
		}
		entries, err := inner(own)
		if err != nil {
			return nil, err
		}
		object.entries(entries)
	}
	return append(object.dst, '}'), nil
}

// objectWriter appends the fields of an object.
type objectWriter struct {
	dst  []byte
	some bool
}

func (w *objectWriter) field(name string) {
	w.comma()
	w.dst = append(w.dst, '"')
	w.dst = append(w.dst, name...)
	w.dst = append(w.dst, `":`...)
}

// comma appends one if there is something before.
func (w *objectWriter) comma() {
	if w.some {
		w.dst = append(w.dst, ',')
	}
	w.some = true
}

// entries appends fields that are JSON already.
func (w *objectWriter) entries(text string) {
	if text == "" {
		return
	}
	w.comma()
	w.dst = append(w.dst, text...)
}

func (w *objectWriter) text(s string) { w.dst = appendString(w.dst, s) }

const hex = "0123456789abcdef"

// appendString appends a JSON string, escaped no more than RFC 8259 demands.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			dst = appendEscaped(dst, c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, s[start:i]...)
			dst = append(dst, "\uFFFD"...)
			i++
			start = i
			continue
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendEscaped(dst []byte, c byte) []byte {
	const short, letters = "\"\\\b\f\n\r\t", `"\bfnrt`
	if i := strings.IndexByte(short, c); i >= 0 {
		return append(dst, '\\', letters[i])
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}
