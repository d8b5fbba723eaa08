package transcode

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// NewCustomKind returns what is needed to write the custom resources of one kind and version
// as JSON. They are stored in the JSON that is sent, without the resourceVersion.
//
// On its way out Kubernetes prunes fields, sets defaults and normalizes metadata. All this
// depends on which fields an object has, of which types, and whether they are empty, so that
// is the fingerprint. Labels and annotations count by their types alone.
func NewCustomKind(gvk schema.GroupVersionKind) *Kind {
	return &Kind{custom: true, head: []byte(strconv.Quote(gvk.GroupVersion().String())), opening: []byte(strconv.Quote(gvk.Kind))}
}

// customObject writes a custom resource.
func (w *walker) customObject(k *Kind, stored []byte) bool {
	text := bytes.TrimSuffix(stored, []byte("\n"))
	c := customWalk{walker: w, text: text, version: k.head, kind: k.opening}
	if !c.object(topRole) || c.pos != len(text) || c.revision == 0 || c.identified != 2 {
		return false
	}
	w.dst = append(w.dst, text[:c.revision]...)
	w.dst = append(w.dst, `"resourceVersion":"`...)
	w.dst = append(w.dst, w.revision...)
	w.dst = append(w.dst, '"', ',')
	w.dst = append(w.dst, text[c.revision:]...)
	return true
}

// customWalk goes through JSON. It refuses, by returning false, what encoding/json would not
// write for a decoded object: other orders, blanks, escapes and numbers.
type customWalk struct {
	*walker
	text  []byte
	pos   int
	depth int
	// version and kind are the apiVersion and kind that the object must have, quoted.
	version, kind []byte
	// identified counts how many of version and kind the object has.
	identified int
	// revision is where the resourceVersion belongs: before the first of the fields of the
	// metadata that come later, such as the UID. It is 0 before that field is reached, and
	// objects without one are refused.
	revision int
}

// role tells objects apart whose fields have a meaning here.
type role uint8

const (
	otherRole role = iota
	topRole
	metadataRole
	// keysRole is the role of labels and annotations, whose keys do not count.
	keysRole
)

// Parts of fingerprints.
const (
	objectBegins uint64 = iota + 1
	objectEnds
	listOf
	emptyText
	someText
	aTime
	trueOrFalse
	null
	zeroNumber
	wholeNumber
	fraction
)

func (c *customWalk) peek() byte {
	if c.pos < len(c.text) {
		return c.text[c.pos]
	}
	return 0
}

func (c *customWalk) take(b byte) bool {
	if c.peek() != b {
		return false
	}
	c.pos++
	return true
}

// value goes through a value. key is the field that has it. It is nil in lists.
func (c *customWalk) value(r role, key []byte) bool {
	switch c.peek() {
	case '{':
		return c.object(r.child(key))
	case '[':
		return c.list()
	case '"':
		return c.mixedText(key)
	case 't':
		return c.word("true", trueOrFalse)
	case 'f':
		return c.word("false", trueOrFalse)
	case 'n':
		return c.word("null", null)
	}
	return c.number()
}

// child returns the role of the object in a field of an object that has role r.
func (r role) child(key []byte) role {
	switch {
	case r == topRole && string(key) == "metadata":
		return metadataRole
	case r == metadataRole && (string(key) == "labels" || string(key) == "annotations"):
		return keysRole
	}
	return otherRole
}

func (c *customWalk) object(r role) bool {
	if c.depth++; c.depth > maxDepth || !c.take('{') {
		return false
	}
	c.mix(objectBegins)
	var last []byte
	for first := true; !c.take('}'); first = false {
		if !first && !c.take(',') {
			return false
		}
		begins := c.pos
		key, plain := c.string()
		// Kubernetes sorts keys without escapes.
		if !plain || bytes.IndexByte(key, '\\') >= 0 || !first && bytes.Compare(last, key) >= 0 || !c.take(':') {
			return false
		}
		last = key
		if r == metadataRole && c.revision == 0 && string(key) >= "resourceVersion" {
			if c.revision = begins; string(key) == "resourceVersion" {
				return false
			}
		}
		if !c.field(r, key) {
			return false
		}
	}
	if c.depth--; r == keysRole && last != nil {
		c.mix(someText)
	}
	c.mix(objectEnds)
	return true
}

// field goes through the value of an object's field.
func (c *customWalk) field(r role, key []byte) bool {
	switch {
	case r == keysRole:
		_, ok := c.string()
		return ok
	case r == topRole && string(key) == "apiVersion":
		return c.identity(c.version)
	case r == topRole && string(key) == "kind":
		return c.identity(c.kind)
	}
	c.mixText(key)
	return c.value(r, key)
}

// identity goes through a text that must be quoted.
func (c *customWalk) identity(quoted []byte) bool {
	if !bytes.HasPrefix(c.text[c.pos:], quoted) {
		return false
	}
	c.pos += len(quoted)
	c.identified++
	return true
}

// list goes through a list. As in other kinds, the set of its values counts.
func (c *customWalk) list() bool {
	if c.depth++; c.depth > maxDepth || !c.take('[') {
		return false
	}
	outer, base := c.hash, len(c.distinct)
	var set uint64
	count := 0
	for ; !c.take(']'); count++ {
		if count > 0 && !c.take(',') {
			return false
		}
		c.hash = listOf
		if !c.value(otherRole, nil) {
			return false
		}
		set += c.unseen(base)
	}
	c.depth--
	c.endCollection(base, set, count)
	inner := c.hash
	c.hash = outer
	c.mix(inner)
	return true
}

// mixedText goes through a text. Metadata has times, which Kubernetes formats again.
func (c *customWalk) mixedText(key []byte) bool {
	text, ok := c.string()
	switch {
	case !ok:
		return false
	case len(text) == 0:
		c.mix(emptyText)
	case isTimeField(key) && isCanonicalTime(text):
		c.mix(aTime)
	default:
		c.mix(someText)
	}
	return true
}

func isTimeField(key []byte) bool {
	switch string(key) {
	case "creationTimestamp", "deletionTimestamp", "time":
		return true
	}
	return false
}

// isCanonicalTime reports whether a text is as metav1.Time writes it, other than the zero
// time.
func isCanonicalTime(text []byte) bool {
	const length = len("2006-01-02T15:04:05Z")
	if len(text) != length || text[length-1] != 'Z' {
		return false
	}
	at, err := time.Parse(time.RFC3339, string(text))
	return err == nil && !at.IsZero()
}

func (c *customWalk) word(word string, token uint64) bool {
	if !bytes.HasPrefix(c.text[c.pos:], []byte(word)) {
		return false
	}
	c.pos += len(word)
	c.mix(token)
	return true
}

// number goes through a number that is written as Kubernetes writes it.
func (c *customWalk) number() bool {
	begins := c.pos
	for c.pos < len(c.text) && isNumeric[c.text[c.pos]] {
		c.pos++
	}
	text := c.text[begins:c.pos]
	digits := bytes.TrimPrefix(text, []byte("-"))
	const fewDigits = 18 // of any int64
	if len(digits) > 0 && len(digits) <= fewDigits && len(bytes.TrimLeft(digits, "0123456789")) == 0 {
		switch {
		case string(text) == "0":
			c.mix(zeroNumber)
		case digits[0] == '0':
			return false
		default:
			c.mix(wholeNumber)
		}
		return true
	}
	c.mix(fraction)
	return isCanonicalFloat(text)
}

var isNumeric = func() (table [256]bool) {
	for _, b := range []byte("0123456789+-.eE") {
		table[b] = true
	}
	return table
}()

// string goes through a text that is written as encoding/json writes it, and returns what
// stands between the quotes.
func (c *customWalk) string() ([]byte, bool) {
	if !c.take('"') {
		return nil, false
	}
	begins, ascii := c.pos, true
	for c.pos < len(c.text) {
		switch b := c.text[c.pos]; {
		case plain[b]:
			c.pos++
		case b == '"':
			text := c.text[begins:c.pos]
			c.pos++
			return text, ascii || utf8.Valid(text) && !bytes.Contains(text, []byte("\u2028")) && !bytes.Contains(text, []byte("\u2029"))
		case b == '\\':
			n := canonicalEscape(c.text[c.pos:])
			if n == 0 {
				return nil, false
			}
			c.pos += n
		case b < utf8.RuneSelf:
			return nil, false
		default:
			ascii = false
			c.pos++
		}
	}
	return nil, false
}

// canonicalEscape returns the length of an escape that encoding/json writes, or 0.
func canonicalEscape(text []byte) int {
	const short, long = 2, 6
	if len(text) >= short && bytes.IndexByte([]byte(`"\bfnrt`), text[1]) >= 0 {
		return short
	}
	if len(text) < long || text[1] != 'u' {
		return 0
	}
	if text[2] == '2' {
		if s := string(text[2:long]); s == "2028" || s == "2029" {
			return long
		}
		return 0
	}
	n, err := strconv.ParseUint(string(text[2:long]), 16, 16)
	if err != nil || n >= utf8.RuneSelf || string(appendEscape(nil, byte(n))) != string(text[:long]) {
		return 0
	}
	return long
}

// isCanonicalFloat reports whether a number is written as encoding/json writes a float64.
func isCanonicalFloat(text []byte) bool {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return false
	}
	written, err := json.Marshal(f)
	// A whole number below 2^63 is decoded as an int64, and refused here: it has an exponent
	// or a fraction, or too many digits.
	return err == nil && string(written) == string(text) && bytes.ContainsAny(text, ".e")
}
