package auditlog

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
)

const (
	// dockerPiece is the size of all pieces of a line but the last one in Docker's logs.
	dockerPiece = 16 << 10
	// maxWrappers bounds how often an event is wrapped, maxLists how deep lists are nested.
	maxWrappers = 6
	maxLists    = 100
)

// reader finds the records of a text. It holds one window of the text, which begins at the
// record that is read.
//
// A record is a JSON object, on a line, on several, or beside others on a line. One with a
// list of records is left again at its end. What is no record ends with its line, or where
// the next event begins on it.
type reader struct {
	window
	options Options
	each    func(*Event)
	counts  Counts
	// found are the events, and lost the records that were lost.
	found, lost int64

	scanner scanner
	// where names what the text is wrapped in. lists are those that are open, as in
	// "records[]", with what they are wrapped in.
	where string
	lists []string
	// inTail says that the innermost list has ended, and its object has not.
	inTail bool
	// inner reads what records have wrapped. level is how often this text is.
	inner *reader
	level int
	// pieces of a line that are joined, and the wrapping that they were found in.
	pieces     []byte
	piecesFrom string
}

func newReader(source io.Reader, o Options, each func(*Event)) *reader {
	r := &reader{window: window{source: source, lineEnd: -1}, options: o, each: each}
	r.scanner.keepGroups, r.scanner.wrappings = o.KeepGroups, o.Form.keys()
	return r
}

// readAll reads until the text ends.
func (r *reader) readAll() {
	for {
		c, more := r.peek()
		if !more {
			break
		}
		r.step(c)
	}
	r.joinPieces(nil, r.piecesFrom, true)
	switch {
	case errors.Is(r.err, errPacked):
		r.err = nil
		r.rest(whyPacked, nil)
	case r.err == nil && len(r.lists) > 0:
		r.rest(whyListCutOff, nil)
	}
	r.counts.Bytes = r.read
	if r.counts.Lines = r.lines; r.unfinishedLine() {
		r.counts.Lines++
	}
}

// step consumes a record, or a part of what is around records.
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
	case c == ',' || c == ']' || c == '}': // what is left of something whose beginning was no JSON
		r.consume(1)
		// Text may have brackets, and what is lost may have left some.
		if c != ',' && !slices.ContainsFunc(r.counts.Rest, func(rest Rest) bool { return rest.Lost || rest.Why == whyText }) {
			r.rest(whyPart, r.held[r.pos-1:r.pos])
		}
	case len(r.lists) > 0:
		r.skipDamage(whyCutOff)
	default:
		r.text()
	}
}

// withoutObject marks a list that is in no object.
const withoutObject = "\x00"

// open enters a list: a field of an object, or "" for one without an object.
func (r *reader) open(name string) {
	if name == "" {
		r.lists = append(r.lists, r.around()+withoutObject)
		return
	}
	r.lists = append(r.lists, join(r.around(), name+"[]"))
}

func (r *reader) close() { r.lists, r.inTail = r.lists[:len(r.lists)-1], false }

// around names what the record at pos is wrapped in.
func (r *reader) around() string {
	if len(r.lists) == 0 {
		return r.where
	}
	return strings.TrimSuffix(r.lists[len(r.lists)-1], withoutObject)
}

func join(where, name string) string {
	if where == "" {
		return name
	}
	return where + "." + name
}

// tail consumes a member of an object whose list has ended.
func (r *reader) tail() {
	ended := false
	consumed := r.scan(func(data []byte) (n int, short, ok bool) {
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
	n := r.scan(r.scanner.scan)
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
		r.rest(whyOtherObject, object)
	}
}

// scan has a function of the scanner consume what it is for: first of the line, then of all
// that the window can hold. It returns the number of bytes, 0 if what is at pos is damaged. That
// is then skipped.
func (r *reader) scan(scan func([]byte) (n int, short, ok bool)) int {
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

// emit gives an event to the caller.
func (r *reader) emit(e *Event, record []byte) {
	if e.Time() == 0 {
		r.rest(whyNoTime, record)
		return
	}
	r.found++
	r.counts.Events++
	if where := r.around(); where != "" {
		if r.counts.Wrapped == nil {
			r.counts.Wrapped = map[string]uint64{}
		}
		r.counts.Wrapped[where]++
	}
	r.each(e)
}

// unwrap reads the events that a record has wrapped.
func (r *reader) unwrap(record []byte) {
	s := &r.scanner
	found, lost := int64(0), int64(0)
	for i := range s.payloads {
		p := &s.payloads[i]
		switch {
		case p.key == googlePayload:
			if e, ok := googleEvent(record); ok {
				r.lists = append(r.lists, join(r.around(), googlePayload))
				r.emit(e, record)
				r.close()
				return
			}
		case p.text && p.key == piecesKey && s.piece:
			r.joinPieces(p.data, join(r.around(), p.key), len(p.data) != dockerPiece)
			return
		default:
			n, bad := r.readInner(p.data, join(r.around(), p.key))
			found, lost = found+n, lost+bad
		}
		if found > 0 {
			break
		}
	}
	switch {
	case lost > 0:
		r.rest(whyInsideOf, record)
	case found == 0:
		r.rest(whyOtherObject, record)
	}
}

// readInner reads a text that is wrapped. It returns the number of events, and of records
// that were lost.
func (r *reader) readInner(text []byte, where string) (found, lost int64) {
	if r.level >= maxWrappers {
		return 0, 0
	}
	if r.inner == nil {
		r.inner = newReader(nil, r.options, r.each)
		r.inner.level = r.level + 1
	}
	in := r.inner
	in.window = window{held: text, lineEnd: -1, ended: true}
	in.where, in.lists, in.inTail, in.found, in.lost = where, in.lists[:0], false, 0, 0
	in.counts = Counts{Wrapped: r.counts.Wrapped}
	in.readAll()
	r.counts.Wrapped = in.counts.Wrapped
	r.counts.Events += in.counts.Events
	r.found += in.found
	return in.found, in.lost
}

// rest counts a record that is no event, and has been consumed.
func (r *reader) rest(why string, record []byte) {
	r.restOf(why, int64(len(record)), r.lines+1-int64(bytes.Count(record, []byte{'\n'})), record)
}

func (r *reader) restOf(why string, bytes, line int64, begins []byte) {
	if slices.Contains(lostReasons, why) {
		r.lost++
	}
	if r.level == 0 {
		r.counts.add(why, bytes, line, begins)
	}
}

// eventBegins is how events begin that an API server has written.
var eventBegins = []byte(`{"kind":"Event"`)

// skipDamage consumes what is no record: to the end of its line, or to the next event on it.
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
		// The beginning of an event may have been read in part.
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
	r.restOf(why, bytesSkipped, line, begins)
}
