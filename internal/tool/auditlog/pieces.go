package auditlog

import (
	"bytes"
	"strings"
)

// joinPieces reads a text that may be a piece of a line, as in logs of containers. It keeps
// pieces until the last piece comes, or until another line starts.
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
