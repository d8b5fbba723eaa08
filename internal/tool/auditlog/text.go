package auditlog

import (
	"bytes"
	"slices"
	"strings"
)

// text consumes a line that is no JSON. It may have JSON behind other text.
func (r *reader) text() {
	for r.endOfLine() == len(r.held) && r.fill() {
	}
	if r.endOfLine() == len(r.held) && !r.ended {
		r.skipDamage(whyTooLong)
		return
	}
	line := r.held[r.pos:r.endOfLine()]
	isFirst := r.level == 0 && r.counts.Events == 0 && len(r.counts.Rest) == 0
	r.consume(len(line))
	if _, wanted := r.scanner.wrappings[textBefore]; wanted {
		where := join(r.around(), textBefore)
		if piece, last, ok := cutContainerLine(line); ok {
			r.joinPieces(piece, where, last)
			return
		}
		if i := bytes.IndexByte(line, '{'); i >= 0 {
			found, lost := r.readInner(line[i:], where)
			if found > 0 && (lost > 0 || isPart(line[:i], isFirst)) {
				r.rest(whyPart, line)
			}
			if found > 0 {
				return
			}
		}
	}
	r.restOfText(line, isFirst)
}

// restOfText counts a text without an event.
func (r *reader) restOfText(text []byte, isFirst bool) {
	if isPart(text, isFirst) {
		r.rest(whyPart, text)
		return
	}
	r.rest(whyText, text)
}

// cutContainerLine takes the text out of a line of a container's log in the form of CRI:
// "2026-01-02T03:04:05.678901234Z stdout F text", with P in place of F for all pieces of a
// line but the last.
func cutContainerLine(line []byte) (text []byte, last, ok bool) {
	parts := bytes.SplitN(line, []byte{' '}, 4)
	if len(parts) < 4 || string(parts[1]) != "stdout" && string(parts[1]) != "stderr" {
		return nil, false, false
	}
	if _, isTime := parseMicros(parts[0]); !isTime {
		return nil, false, false
	}
	tag, _, _ := strings.Cut(string(parts[2]), ":")
	return parts[3], tag == "F", tag == "F" || tag == "P"
}

// isPart reports whether a text seems to be a part of an event: it has names of fields of
// events, or it is the first of a log and ends as JSON does, or has fields.
func isPart(text []byte, isFirst bool) bool {
	has := func(part string) bool { return bytes.Contains(text, []byte(part)) }
	if isFirst && (has(`":`) || slices.ContainsFunc([]string{`"}`, "}}", "}]", "]}", `"]`}, func(end string) bool { return bytes.HasSuffix(text, []byte(end)) })) {
		return true
	}
	return slices.ContainsFunc([]string{"auditID", "requestURI", "stageTimestamp", "requestReceivedTimestamp", "audit.k8s.io"}, has)
}

// joinPieces reads a text that may be a piece of a line, as logs of containers have them. It
// waits for the last one.
func (r *reader) joinPieces(piece []byte, where string, last bool) {
	if len(r.pieces) > 0 && (where != r.piecesFrom || bytes.HasPrefix(piece, eventBegins) || len(r.pieces)+len(piece) > maxRecord) {
		r.readPieces(r.pieces, r.piecesFrom)
		r.pieces = r.pieces[:0]
	}
	switch {
	case !last:
		r.pieces, r.piecesFrom = append(r.pieces, piece...), where
	case len(r.pieces) > 0:
		r.readPieces(append(r.pieces, piece...), where)
		r.pieces = r.pieces[:0]
	case len(piece) > 0:
		r.readPieces(piece, where)
	}
}

func (r *reader) readPieces(text []byte, where string) {
	switch found, lost := r.readInner(text, where); {
	case lost > 0:
		r.rest(whyInsideOf, text)
	case found == 0:
		r.restOfText(text, r.counts.Events == 0)
	}
}
