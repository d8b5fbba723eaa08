package transcode

import (
	"bytes"

	"k8s.io/apimachinery/pkg/api/resource"
)

// quantity writes a resource.Quantity, whose stored form is the same text as in JSON. It
// refuses texts that Kubernetes would write in another way, and fractions below a
// thousandth, which its defaulting rounds up.
func (w *walker) quantity(content []byte) bool {
	const textTag = 1<<3 | lengthDelimited
	if len(content) == 0 || content[0] != textTag {
		return false
	}
	text, i := payload(content, 1) // the text follows the tag, which is one byte
	if i != len(content) || !isCanonical(text) && !isCanonicalParsed(text) {
		return false
	}
	if string(text) == "0" { // as for other fields, zero has another fingerprint
		w.mix(setToZero)
	}
	if w.writes {
		w.dst = append(w.dst, '"')
		w.dst = append(w.dst, text...)
		w.dst = append(w.dst, '"')
	}
	return true
}

// maxCanonicalDigits keeps the numbers that isCanonical accepts far from the limits of
// quantities.
const maxCanonicalDigits = 9

// isCanonical recognizes the usual quantities: a positive integer of a few digits, with a
// suffix or none, that no larger suffix fits. Suffixes from P and Pi on are left to the
// parser.
func isCanonical(text []byte) bool {
	if len(text) == 1 && text[0] == '0' {
		return true
	}
	n, digits := 0, 0
	for digits < len(text) && text[digits] >= '0' && text[digits] <= '9' {
		n = 10*n + int(text[digits]-'0')
		if digits++; digits > maxCanonicalDigits {
			return false
		}
	}
	if digits == 0 || text[0] == '0' {
		return false
	}
	switch string(text[digits:]) {
	case "", "m", "k", "M", "G", "T":
		return n%1000 != 0
	case "Ki", "Mi", "Gi", "Ti":
		return n%1024 != 0
	}
	return false
}

// isCanonicalParsed checks, by Kubernetes' parser, the quantities that isCanonical does not
// recognize. Suffixes n and u are refused: they are below a thousandth.
func isCanonicalParsed(text []byte) bool {
	if bytes.ContainsAny(text, "nu") {
		return false
	}
	q, err := resource.ParseQuantity(string(text))
	if err != nil {
		return false
	}
	rounded := q.DeepCopy()
	rounded.RoundUp(resource.Milli)
	return q.String() == string(text) && rounded.String() == string(text)
}
