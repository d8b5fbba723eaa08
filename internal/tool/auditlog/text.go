package auditlog

import (
	"bytes"
	"slices"
	"strings"
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
	if _, wanted := r.scanner.wrappers[textBefore]; wanted {
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

// cutContainerLine returns the text of a line of a container's log as CRI (the container runtime
// interface) writes it: "2026-01-02T03:04:05.678901234Z stdout F text". All pieces of a line
// except for the last have P in place of F. ok is false for other lines.
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

// joinPieces reads a text that may be a piece of a line, as in logs of containers. It keeps
// pieces until the last one comes, or until another line begins.
func (r *reader) joinPieces(piece []byte, path string, last bool) {
	if len(r.pieces) > 0 && (path != r.piecesPath || bytes.HasPrefix(piece, eventBegins) || len(r.pieces)+len(piece) > maxRecord) {
		r.readPieces(r.pieces, r.piecesPath)
		r.pieces = r.pieces[:0]
	}
	switch {
	case !last:
		r.pieces, r.piecesPath = append(r.pieces, piece...), path
	case len(r.pieces) > 0:
		r.readPieces(append(r.pieces, piece...), path)
		r.pieces = r.pieces[:0]
	case len(piece) > 0:
		r.readPieces(piece, path)
	}
}

// readPieces reads a line whose pieces are joined.
func (r *reader) readPieces(text []byte, path string) {
	switch found, lost := r.readInner(text, path); {
	case lost > 0:
		r.countRest(whyInsideOf, text)
	case found == 0:
		r.countText(text, r.counts.Events == 0)
	}
}
