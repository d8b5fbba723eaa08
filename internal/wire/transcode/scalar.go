package transcode

import (
	"encoding/base64"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// value writes a value that is stored with its length, and no text. It is called for what
// is set, so the fingerprint says at least that.
func (w *walker) value(f *field, content []byte) bool {
	w.mix(f.token)
	switch f.value {
	case messageValue, rawValue:
		return w.shared(f, content, false)
	case bytesValue:
		return w.bytes(content)
	case itemsValue:
		return w.items(content)
	case quantityValue:
		return w.quantity(content)
	case timeValue:
		return w.time(content, false)
	case microTimeValue:
		return w.time(content, true)
	case durationValue:
		return w.duration(content)
	case intOrStringValue:
		return w.intOrString(content)
	}
	return false
}

// writeNumber writes a bool or an integer.
func (w *walker) writeNumber(f *field, v uint64) bool {
	n := int64(v)
	if f.value == boolValue && v > 1 || f.value == intValue && !f.wide && (n < math.MinInt32 || n > math.MaxInt32) {
		return false
	}
	switch {
	case !w.writes:
	case f.value == intValue:
		w.dst = strconv.AppendInt(w.dst, n, 10)
	default:
		w.dst = strconv.AppendBool(w.dst, v != 0)
	}
	return true
}

func (w *walker) bytes(content []byte) bool {
	w.mix(uint64(min(len(content), 1)))
	if w.writes {
		w.dst = append(w.dst, '"')
		w.dst = base64.StdEncoding.AppendEncode(w.dst, content)
		w.dst = append(w.dst, '"')
	}
	return true
}

// items writes a list of strings that is a message with the strings in field 1.
func (w *walker) items(content []byte) bool {
	const itemTag = 1<<3 | lengthDelimited
	w.mix(uint64(min(len(content), 1)))
	if w.writes {
		w.dst = append(w.dst, '[')
	}
	for i := 0; i < len(content); {
		if content[i] != itemTag {
			return false
		}
		item, next := payload(content, i+1)
		if next < 0 {
			return false
		}
		if w.writes {
			if i > 0 {
				w.dst = append(w.dst, ',')
			}
			w.dst = appendText(w.dst, item)
		}
		i = next
	}
	if w.writes {
		w.dst = append(w.dst, ']')
	}
	return true
}

// timestamp reads the seconds and nanoseconds of a time. Both are always stored, except for
// the zero time, which is empty.
func timestamp(content []byte) (seconds int64, nanos uint64, ok bool) {
	const secondsTag, nanosTag = 1 << 3, 2 << 3
	if content[0] != secondsTag {
		return 0, 0, false
	}
	s, i := varint(content, 1)
	if i < 0 || i == len(content) || content[i] != nanosTag {
		return 0, 0, false
	}
	nanos, i = varint(content, i+1)
	return int64(s), nanos, i == len(content)
}

// The times that are written here: of years with four digits, from 1970 on. Go's zero time
// is not among them.
const (
	minSeconds = 0
	maxSeconds = 253402300799
)

// time writes a metav1.Time or, with micro, a metav1.MicroTime.
func (w *walker) time(content []byte, micro bool) bool {
	if len(content) == 0 { // the zero time
		w.mix(setToZero)
		if w.writes {
			w.dst = append(w.dst, "null"...)
		}
		return true
	}
	seconds, nanos, ok := timestamp(content)
	switch {
	case !ok || seconds < minSeconds || seconds > maxSeconds:
		return false
	case micro && (nanos >= uint64(time.Second) || nanos%uint64(time.Microsecond) != 0):
		return false
	case !micro && nanos != 0: // Kubernetes drops them.
		return false
	}
	if w.writes {
		w.dst = append(w.dst, '"')
		w.dst = appendTime(w.dst, seconds)
		if micro {
			w.dst = append(w.dst, '.')
			w.dst = appendDigits(w.dst, nanos/uint64(time.Microsecond), 6)
		}
		w.dst = append(w.dst, 'Z', '"')
	}
	return true
}

// appendTime appends seconds since 1970 as in RFC 3339, without the zone.
func appendTime(dst []byte, seconds int64) []byte {
	days, rest := uint64(seconds/86400), uint64(seconds%86400)
	// The calendar repeats after 400 years. Years begin in March here, so that the leap day
	// is their last.
	days += 719468
	era := days / 146097
	day := days % 146097
	year := (day - day/1460 + day/36524 - day/146096) / 365
	day -= 365*year + year/4 - year/100
	month := (5*day + 2) / 153
	day -= (153*month + 2) / 5
	year += era * 400
	if month += 3; month > 12 {
		month -= 12
		year++
	}
	dst = append(appendDigits(dst, year, 4), '-')
	dst = append(appendDigits(dst, month, 2), '-')
	dst = append(appendDigits(dst, day+1, 2), 'T')
	dst = append(appendDigits(dst, rest/3600, 2), ':')
	dst = append(appendDigits(dst, rest/60%60, 2), ':')
	return appendDigits(dst, rest%60, 2)
}

// appendDigits appends a number with n digits, of which there are six at most.
func appendDigits(dst []byte, v uint64, n int) []byte {
	var digits [6]byte
	for i := n - 1; i >= 0; i-- {
		digits[i] = byte('0' + v%10)
		v /= 10
	}
	return append(dst, digits[:n]...)
}

// duration writes a metav1.Duration.
func (w *walker) duration(content []byte) bool {
	const durationTag = 1 << 3
	if len(content) == 0 || content[0] != durationTag {
		return false
	}
	v, i := varint(content, 1)
	if i != len(content) {
		return false
	}
	if w.writes {
		w.dst = append(w.dst, '"')
		w.dst = append(w.dst, time.Duration(v).String()...) // It has µ, which needs no escape.
		w.dst = append(w.dst, '"')
	}
	return true
}

// intOrString writes an intstr.IntOrString. All its fields are always stored.
func (w *walker) intOrString(content []byte) bool {
	const typeTag, intTag, textTag = 1 << 3, 2 << 3, 3<<3 | lengthDelimited
	if len(content) < 4 || content[0] != typeTag || content[1] > 1 || content[2] != intTag {
		return false
	}
	isText := content[1] == 1
	v, i := varint(content, 3)
	if i < 0 || i == len(content) || content[i] != textTag {
		return false
	}
	n := int64(v)
	text, i := payload(content, i+1)
	if i != len(content) || n < math.MinInt32 || n > math.MaxInt32 {
		return false
	}
	w.mix(uint64(content[1]) | uint64(min(len(text), 1))<<1 | min(v, 1)<<2 | v>>63<<3)
	switch {
	case !w.writes:
	case isText:
		w.dst = appendText(w.dst, text)
	default:
		w.dst = strconv.AppendInt(w.dst, n, 10)
	}
	return true
}

// raw writes the JSON of a runtime.RawExtension or a metav1.FieldsV1: the only field, if it
// is stored.
func (w *walker) raw(content []byte) bool {
	const rawTag = 1<<3 | byte(protowire.BytesType)
	if len(content) == 0 || content[0] != rawTag {
		return false
	}
	text, i := payload(content, 1)
	if i != len(content) || w.writes && !isCompactObject(text) {
		return false
	}
	if w.writes {
		w.dst = append(w.dst, text...)
	}
	return true
}
