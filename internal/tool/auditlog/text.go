package auditlog

import (
	"bytes"
	"slices"
)

// textLine consumes a line that does not begin with JSON. JSON may follow other text on the line.
func (r *reader) textLine() {
	for r.endOfLine() == len(r.held) && r.fill() {
	}
	if r.endOfLine() == len(r.held) && !r.ended {
		r.skipDamage(whyTooLong)
		return
	}
	line := r.held[r.pos:r.endOfLine()]
	isFirst := r.level == 0 && r.counts.Events == 0 && len(r.counts.Rest) == 0
	r.consume(len(line))
	if _, wanted := r.scanner.eventFields[textBefore]; wanted {
		path := join(r.wrapperPath(), textBefore)
		if piece, last, ok := cutContainerLine(line); ok {
			r.joinPieces(piece, path, last)
			return
		}
		if i := bytes.IndexByte(line, '{'); i >= 0 {
			found, lost := r.readInner(line[i:], path)
			if found > 0 && (lost > 0 || isPart(line[:i], isFirst)) {
				r.countRest(whyPart, line)
			}
			if found > 0 {
				return
			}
		}
	}
	r.countText(line, isFirst)
}

// countText counts a text without an event.
func (r *reader) countText(text []byte, isFirst bool) {
	if isPart(text, isFirst) {
		r.countRest(whyPart, text)
		return
	}
	r.countRest(whyText, text)
}

// isPart reports whether a text seems to be a part of an event: if it has names of an event's
// fields. The first text of a log is one, too, if it ends like JSON or has any fields: rotation
// may have cut the event.
func isPart(text []byte, isFirst bool) bool {
	has := func(part string) bool { return bytes.Contains(text, []byte(part)) }
	if isFirst && (has(`":`) || slices.ContainsFunc([]string{`"}`, "}}", "}]", "]}", `"]`}, func(end string) bool { return bytes.HasSuffix(text, []byte(end)) })) {
		return true
	}
	return slices.ContainsFunc([]string{"auditID", "requestURI", "stageTimestamp", "requestReceivedTimestamp", "audit.k8s.io"}, has)
}
