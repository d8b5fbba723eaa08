package auditlog

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
)

const (
	// dockerPiece is the size of each piece of a line in Docker's logs, except for the last.
	dockerPiece = 16 << 10
	// maxWrappers bounds the wrappers of an event, and maxLists the depth of nested lists.
	maxWrappers = 6
	maxLists    = 100
)

// reader finds the records of a text. It holds one window of the text, which starts at the
// record that is read.
//
// A record is a JSON object. It may share its line with other records, or have several lines. A record
// with a list of records ends after that list, with the members that follow it. Text that is not a
// record ends with its line, or where the next event starts on that line.
type reader struct {
	window
	options Options
	each    func(*Event) // receives each event; its bytes are the reader's
	counts  Counts
	// eventCount and lostCount are the events and the lost records of this text.
	eventCount, lostCount int64

	scanner scanner
	// outerPath has the names of the wrappers around the text, such as "properties.log". lists
	// are the paths of the open lists of records in it, such as "records[]".
	outerPath string
	lists     []string
	// inTail says that the innermost list has ended, and its object has not.
	inTail bool
	// inner reads the payloads of records. level is the number of wrappers around this text.
	inner *reader
	level int
	// pieces are the pieces of one line so far, and piecesPath is their wrapper path.
	pieces     []byte
	piecesPath string
}

func newReader(source io.Reader, o Options, each func(*Event)) *reader {
	r := &reader{window: window{source: source, lineEnd: -1}, options: o, each: each}
	r.scanner.keepGroups, r.scanner.eventFields = o.KeepGroups, o.Wrapper.fields()
	return r
}

// readAll reads until the text ends.
func (r *reader) readAll() {
	for {
		c, more := r.skipSpace()
		if !more {
			break
		}
		r.step(c)
	}
	r.joinPieces(nil, r.piecesPath, true)
	switch {
	case errors.Is(r.err, errPacked):
		if !slices.ContainsFunc(r.counts.Rest, func(rest Rest) bool { return rest.Why == whyPacked }) {
			r.countRest(whyPacked, nil)
		}
		r.err = nil
	case r.err == nil && len(r.lists) > 0:
		r.countRest(whyListCutOff, nil)
	}
	r.counts.Bytes = r.read
	if r.counts.Lines = r.lines; r.unfinishedLine() {
		r.counts.Lines++
	}
}

// step consumes a record, or a part of the text around records, which starts with c.
func (r *reader) step(c byte) {
	switch {
	case r.inTail:
		r.tail()
	case c == '{':
		r.record()
	case c == '[' && len(r.lists) < maxLists && (len(r.lists) > 0 || r.beginsList()):
		r.open("")
		r.consume(1)
	case c == ']' && len(r.lists) > 0:
		r.inTail = !strings.HasSuffix(r.lists[len(r.lists)-1], withoutObject)
		if !r.inTail {
			r.close()
		}
		r.consume(1)
	case c == ',' || c == ']' || c == '}': // the rest of text whose start was no JSON
		r.consume(1)
		// Text may have brackets, and a lost record may have left some.
		if c != ',' && !slices.ContainsFunc(r.counts.Rest, func(rest Rest) bool { return rest.Lost || rest.Why == whyText }) {
			r.countRest(whyPart, r.held[r.pos-1:r.pos])
		}
	case len(r.lists) > 0:
		r.skipDamage(whyCutOff)
	default:
		r.textLine()
	}
}

// withoutObject marks a list that is in no object.
const withoutObject = "\x00"

// open enters a list of records: the field name of an object, or "" for an array in no object.
func (r *reader) open(name string) {
	if name == "" {
		r.lists = append(r.lists, r.wrapperPath()+withoutObject)
		return
	}
	r.lists = append(r.lists, join(r.wrapperPath(), name+"[]"))
}

// close leaves the innermost list.
func (r *reader) close() { r.lists, r.inTail = r.lists[:len(r.lists)-1], false }

// wrapperPath returns the names of the wrappers around the record at pos, such as
// "records[].properties".
func (r *reader) wrapperPath() string {
	if len(r.lists) == 0 {
		return r.outerPath
	}
	return strings.TrimSuffix(r.lists[len(r.lists)-1], withoutObject)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// tail consumes a member of an object after its list of records, or the end of the object.
func (r *reader) tail() {
	ended := false
	consumed := r.consumeScanned(func(data []byte) (n int, short, ok bool) {
		n, ended, short, ok = r.scanner.scanTail(data)
		return n, short, ok
	})
	switch {
	case consumed == 0: // it was damaged
	case ended:
		r.close()
	case r.scanner.list != "":
		list := r.scanner.list
		r.close()
		r.open(list)
	}
}

// record consumes an object, or the part of it before its list.
func (r *reader) record() {
	n := r.consumeScanned(r.scanner.scanObject)
	s := &r.scanner
	switch object := r.held[r.pos-n : r.pos]; {
	case n == 0: // it was damaged
	case s.list != "" && len(r.lists) < maxLists:
		r.open(s.list)
	case len(s.event.Stage) > 0:
		r.emit(&s.event, object)
	case len(s.payloads) > 0:
		r.unwrap(object)
	default:
		r.countRest(whyOtherObject, object)
	}
}

// consumeScanned calls scan with the rest of the line, and with up to maxRecord bytes if that is
// short. It consumes the bytes that scan has read, and returns their number. If the text at pos
// is damaged, consumeScanned skips the damage and returns 0.
func (r *reader) consumeScanned(scan func([]byte) (n int, short, ok bool)) int {
	for whole := false; ; {
		end := r.endOfLine()
		if whole {
			end = len(r.held)
		}
		n, short, ok := scan(r.held[r.pos:end])
		switch {
		case ok:
			r.consume(n)
			return n
		case short && end < len(r.held):
			whole = true
		case short && r.fillMore():
		case short && !r.ended:
			r.skipDamage(whyTooLong)
			return 0
		default:
			r.skipDamage(whyCutOff)
			return 0
		}
	}
}

// emit counts an event and passes it to the caller. record is the object that it was read from.
func (r *reader) emit(e *Event, record []byte) {
	if e.Time() == 0 {
		r.countRest(whyNoTime, record)
		return
	}
	r.eventCount++
	r.counts.Events++
	if path := r.wrapperPath(); path != "" {
		if r.counts.Wrapped == nil {
			r.counts.Wrapped = map[string]uint64{}
		}
		r.counts.Wrapped[path]++
	}
	r.each(e)
}

// unwrap reads the events in the payloads of a record. A payload that has events is the last.
func (r *reader) unwrap(record []byte) {
	s := &r.scanner
	var found, lost int64
	for i := range s.payloads {
		p := &s.payloads[i]
		switch {
		case p.key == googlePayload:
			if e, ok := googleEvent(record); ok {
				r.lists = append(r.lists, join(r.wrapperPath(), googlePayload))
				r.emit(e, record)
				r.close()
				return
			}
		case p.text && p.key == piecesKey && s.mayBePiece:
			r.joinPieces(p.data, join(r.wrapperPath(), p.key), len(p.data) != dockerPiece)
			return
		default:
			events, damaged := r.readInner(p.data, join(r.wrapperPath(), p.key))
			found += events
			lost += damaged
		}
		if found > 0 {
			break
		}
	}
	switch {
	case lost > 0:
		r.countRest(whyInsideOf, record)
	case found == 0:
		r.countRest(whyOtherObject, record)
	}
}

// readInner reads the text of a payload. It returns the numbers of events and of lost records in
// the text. path has the names of the wrappers around it.
func (r *reader) readInner(text []byte, path string) (found, lost int64) {
	if r.level >= maxWrappers {
		return 0, 0
	}
	if r.inner == nil {
		r.inner = newReader(nil, r.options, r.each)
		r.inner.level = r.level + 1
	}
	in := r.inner
	in.window = window{held: text, lineEnd: -1, ended: true}
	in.outerPath, in.lists = path, in.lists[:0]
	in.inTail = false
	in.eventCount, in.lostCount = 0, 0
	in.counts = Counts{Wrapped: r.counts.Wrapped}
	in.readAll()
	r.counts.Wrapped = in.counts.Wrapped
	r.counts.Events += in.counts.Events
	r.eventCount += in.eventCount
	return in.eventCount, in.lostCount
}

// countRest counts a record that is not an event or is lost, and has been consumed.
func (r *reader) countRest(why string, record []byte) {
	r.countRestAt(why, int64(len(record)), r.lines+1-int64(bytes.Count(record, []byte{'\n'})), record)
}

// countRestAt does that for any record. bytes is its length, line the number of its first
// line, and begins its first bytes.
func (r *reader) countRestAt(why string, bytes, line int64, begins []byte) {
	if slices.Contains(lostReasons, why) {
		r.lostCount++
		if r.pos == len(r.held) && errors.Is(r.err, errPacked) { // one cause, one reason
			why = whyPacked
		}
	}
	if r.level == 0 {
		r.counts.add(why, bytes, line, begins)
	}
}

// eventBegins is the beginning of an event as API servers write it.
var eventBegins = []byte(`{"kind":"Event"`)

// skipDamage consumes text that is not a record: to the end of its line, or to the next event on it.
// At the end of the line it leaves all lists. why is the reason with which the text is counted.
func (r *reader) skipDamage(why string) {
	begins := bytes.Clone(r.held[r.pos:min(len(r.held), r.pos+maxBegins)])
	line, bytesSkipped := r.lines+1, int64(0)
	skip := func(n int) {
		bytesSkipped += int64(n)
		r.consume(n)
	}
	for first := true; ; first = false {
		held := r.held[r.pos:r.endOfLine()]
		from := 0
		if first {
			from = min(1, len(held))
		}
		if i := bytes.Index(held[from:], eventBegins); i >= 0 {
			skip(from + i)
			break
		}
		if r.endOfLine() < len(r.held) {
			skip(len(held))
			r.lists, r.inTail = r.lists[:0], false
			break
		}
		// The start of an event may have been read in part.
		if keep := min(len(held), len(eventBegins)-1); !r.ended {
			skip(len(held) - keep)
			if r.fill() || !r.ended {
				continue
			}
		}
		skip(len(r.held) - r.pos)
		r.lists, r.inTail = r.lists[:0], false
		break
	}
	r.countRestAt(why, bytesSkipped, line, begins)
}
