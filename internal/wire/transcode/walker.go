package transcode

import (
	"hash/maphash"
	"math/bits"
	"sync"
)

// walker goes through an object's stored bytes once. It computes the fingerprint, and
// writes JSON if writes is set. It refuses, by returning false, whatever Kubernetes'
// generated encoders would not have written: unknown fields, another order, numbers that
// are longer than they need be. So each accepted object has one encoding, and decoding
// loses nothing of it.
type walker struct {
	// dst is what was written. The walk only appends to it if writes is set.
	dst    []byte
	writes bool
	// revision is the object's resourceVersion as text, in digits.
	revision []byte
	digits   [20]byte
	// hash is the fingerprint of what was walked.
	hash   uint64
	seed   maphash.Seed
	proofs *Proofs
	// values are the shared values of proofs that were walked before, with the same writes.
	values *sharedValues
	// partial says that only the object's metadata is written.
	partial bool
	// incomplete says that a field is not stored that Kubernetes' encoder always writes:
	// the object was stored before the field was added to its type.
	incomplete bool

	// spans is a stack: where the fields of the messages are that are being walked.
	spans []span
	// distinct is a stack: the hashes of the values of the lists that are being walked.
	distinct []uint64
}

// span is where a field's values are in the bytes of its message. The zero value says that
// there are none.
type span struct{ from, to uint32 }

var noSpans [maxFields]span

var walkers = sync.Pool{New: func() any { return &walker{spans: make([]span, 0, 512)} }}

// release gives the walker back. Its dst is the caller's.
func (w *walker) release() {
	*w = walker{spans: w.spans[:0], distinct: w.distinct[:0]}
	walkers.Put(w)
}

func (w *walker) setWrites(writes bool) {
	w.writes, w.values = writes, &w.proofs.values
	if writes {
		w.values = &w.proofs.written
	}
}

// mix adds to the fingerprint. The multiplier is an odd constant without structure.
func (w *walker) mix(token uint64) {
	hi, lo := bits.Mul64(w.hash^token, 0x9e3779b97f4a7c15)
	w.hash = hi ^ lo
}

func (w *walker) mixText(text []byte) { w.mix(maphash.Bytes(w.seed, text)) }

// The variants of a field's token. The token itself says that the value is not zero.
const (
	setToZero = 1
	negative  = 2
	endOfList = 3
)

// object writes a message as a JSON object. opening is what it begins with.
func (w *walker) object(m *message, opening, content []byte) bool {
	if w.writes {
		w.dst = append(append(w.dst, '{'), opening...)
	}
	if !w.message(m, content) {
		return false
	}
	if w.writes {
		w.dst = append(w.dst, '}')
	}
	return true
}

// message writes the fields of a message.
func (w *walker) message(m *message, content []byte) bool {
	base := len(w.spans)
	w.spans = append(w.spans, noSpans[:len(m.fields)]...)
	// If a nested message moves the stack, spans refers to the old one, which is not
	// changed any more.
	spans := w.spans[base:]
	due := m.always
	if !scan(m, content, spans, &due) {
		return false
	}
	for word, fields := range due {
		for ; fields != 0; fields &= fields - 1 {
			i := 64*word + bits.TrailingZeros64(fields)
			if !w.field(&m.fields[i], content, spans[i]) {
				return false
			}
		}
	}
	for i := range m.relations {
		r := &m.relations[i]
		if r.holds(storedFields{m, spans, content}) {
			w.mix(r.token)
		} else {
			w.mix(^r.token)
		}
	}
	w.spans = w.spans[:base]
	return true
}

// field writes a field whose values are at content[at.from:at.to], in the bytes of its message.
func (w *walker) field(f *field, content []byte, at span) bool {
	if w.partial && f.top {
		w.setWrites(f.tag == metadataTag)
	}
	switch {
	case f.revision:
		w.incomplete = w.incomplete || at.to == 0
		w.writeRevision(f)
		return true
	case at.to == 0:
		return w.absent(f)
	case f.arity == single:
		return w.single(f, content[at.from+uint32(f.tagSize):at.to])
	}
	return w.collection(f, content[at.from:at.to])
}

// scan finds the fields of a message. It sets their spans, and adds them to found. It returns
// false for what the walker refuses.
func scan(m *message, content []byte, spans []span, found *fieldSet) bool {
	var last uint64
	for i := 0; i < len(content); {
		// Most tags and lengths have one byte, which is read here without a call.
		start := i
		tag, n := uint64(content[i]), i+1
		if tag >= 0x80 {
			tag, n = varint(content, i)
		}
		if n < 0 || n >= len(content) {
			return false
		}
		at := m.find(tag >> 3)
		if at < 0 || uint64(m.fields[at].tag) != tag || tag < last {
			return false
		}
		payload, after := uint64(content[n]), n+1
		if payload >= 0x80 {
			payload, after = varint(content, n)
		}
		if after < 0 {
			return false
		}
		if tag&7 == lengthDelimited {
			if payload > uint64(len(content)-after) {
				return false
			}
			after += int(payload)
		}
		if tag != last {
			spans[at].from = uint32(start)
			found.add(at)
		} else if m.fields[at].arity == single {
			return false
		}
		spans[at].to = uint32(after)
		last, i = tag, after
	}
	return true
}

const lengthDelimited = 2

// varint reads a number at i. It returns where the next byte is, or -1 if the number is
// malformed or longer than it needs be.
func varint(content []byte, i int) (uint64, int) {
	if i < len(content) && content[i] < 0x80 {
		return uint64(content[i]), i + 1
	}
	var v uint64
	for shift := 0; i < len(content); shift += 7 {
		b := content[i]
		i++
		if b < 0x80 {
			if b == 0 || shift > 63 || shift == 63 && b > 1 {
				return 0, -1
			}
			return v | uint64(b)<<shift, i
		}
		if shift > 56 {
			return 0, -1
		}
		v |= uint64(b&0x7f) << shift
	}
	return 0, -1
}

// payload returns the bytes after a length at i, and where the next byte is, or -1.
func payload(content []byte, i int) ([]byte, int) {
	if i >= len(content) {
		return nil, -1
	}
	n := uint64(content[i])
	if i++; n >= 0x80 {
		n, i = varint(content, i-1)
	}
	if i < 0 || n > uint64(len(content)-i) {
		return nil, -1
	}
	return content[i : i+int(n)], i + int(n)
}

// name writes a field's name.
func (w *walker) name(f *field) {
	if w.dst[len(w.dst)-1] == '{' { // No value ends so.
		w.dst = append(w.dst, f.name[1:]...)
		return
	}
	w.dst = append(w.dst, f.name...)
}

// noContent is an empty message with its length.
var noContent = []byte{0}

// absent writes a field that is not stored.
func (w *walker) absent(f *field) bool {
	if !f.required() {
		if f.absent != nil && w.writes {
			w.writeAbsent(f)
		}
		return true
	}
	w.incomplete = true
	if f.value == messageValue {
		return w.single(f, noContent)
	}
	if f.absent != nil && w.writes {
		w.writeAbsent(f)
	}
	return true
}

func (w *walker) writeAbsent(f *field) {
	if w.dst[len(w.dst)-1] == '{' {
		w.dst = append(w.dst, f.absent[1:]...)
		return
	}
	w.dst = append(w.dst, f.absent...)
}

func (w *walker) writeRevision(f *field) {
	if w.writes {
		w.name(f)
		w.dst = append(w.dst, '"')
		w.dst = append(w.dst, w.revision...)
		w.dst = append(w.dst, '"')
	}
}

// single writes a field with one value. stored is the value with its length, without the
// tag.
func (w *walker) single(f *field, stored []byte) bool {
	if f.tag&7 != lengthDelimited {
		return w.number(f, stored)
	}
	content, end := payload(stored, 0)
	if end < 0 {
		return false
	}
	if f.inline {
		w.mix(f.token)
		return w.message(f.message, content)
	}
	if f.value == textValue {
		w.text(f, content)
		return true
	}
	if len(content) == 0 && (f.omitZero || f.omitEmpty && f.value == bytesValue) {
		w.mix(f.token + setToZero)
		return true
	}
	if w.writes {
		w.name(f)
	}
	return w.value(f, content)
}

// number writes a bool or an integer.
func (w *walker) number(f *field, stored []byte) bool {
	v, end := varint(stored, 0)
	if end < 0 {
		return false
	}
	if v == 0 && !f.pointer && f.omitEmpty {
		return true
	}
	switch {
	case v == 0 && f.pointer:
		w.mix(f.token + setToZero)
	case v == 0:
	case int64(v) < 0:
		w.mix(f.token + negative)
	default:
		w.mix(f.token)
	}
	if w.writes {
		w.name(f)
	}
	return w.writeNumber(f, v)
}

// text writes a string.
func (w *walker) text(f *field, content []byte) {
	if len(content) == 0 && !f.pointer {
		if f.absent != nil && w.writes {
			w.writeAbsent(f)
		}
		return
	}
	w.mixValue(f, content)
	if w.writes {
		w.name(f)
		w.dst = appendText(w.dst, content)
	}
}

// mixValue adds a text, or a map's key, to the fingerprint.
func (w *walker) mixValue(f *field, content []byte) {
	if len(content) == 0 {
		w.mix(f.token + setToZero)
		return
	}
	w.mix(f.token)
	if f.hashed || f.hashedDomain && isReserved(content) {
		w.mixText(content)
	}
}
