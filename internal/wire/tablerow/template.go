package tablerow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// ErrVolatile says that a row depends on the time in an unknown way. Kubernetes' own code
// must answer the request.
var ErrVolatile = errors.New("row depends on the time in an unknown way")

// errShape says that a row's JSON does not begin with its cells.
var errShape = errors.New("unexpected shape of an encoded row")

// Template is the JSON of one row of a table. It is immutable and safe for
// concurrent use.
type Template struct {
	// text is the row's JSON without its ages. Each hole is the place of one age.
	text  []byte
	holes []hole
}

// hole is the place of an age in a template's text. It has the timestamp as two numbers,
// which take half the memory of a time.Time.
type hole struct {
	seconds int64
	nanos   int32
	// offset is where the age belongs in text.
	offset int32
	// until says that the age is the time until the timestamp.
	until bool
}

// age is the printed time since a timestamp or, with until, the time until it.
type age struct {
	of    time.Time
	until bool
}

// textAt returns the text of the age at now.
//
// Upstream: k8s.io/kubernetes/pkg/printers/internalversion.translateTimestampSince; compare at each upgrade.
func (a age) textAt(now time.Time) string {
	if a.until {
		return duration.HumanDuration(a.of.Sub(now))
	}
	return duration.HumanDuration(now.Sub(a.of))
}

// Append appends the row's compact JSON, as Kubernetes would print it in a table at now.
func (t *Template) Append(dst []byte, now time.Time) []byte {
	written := int32(0)
	for _, h := range t.holes {
		dst = append(dst, t.text[written:h.offset]...)
		dst = appendEscaped(dst, age{of: time.Unix(h.seconds, int64(h.nanos)), until: h.until}.textAt(now))
		written = h.offset
	}
	return append(dst, t.text[written:]...)
}

// Size returns the memory that the template takes, in bytes.
func (t *Template) Size() int {
	return int(unsafe.Sizeof(*t)) + cap(t.text) + cap(t.holes)*int(unsafe.Sizeof(hole{}))
}

// Fixed reports whether the row has no ages.
func (t *Template) Fixed() bool { return len(t.holes) == 0 }

// appendEscaped appends an age as it is written between the quotes of a JSON string. Only
// "<invalid>" needs escapes.
func appendEscaped(dst []byte, text string) []byte {
	if strings.HasPrefix(text, "<") {
		return append(dst, escaped(text)...)
	}
	return append(dst, text...)
}

// escaped returns text as it is written between the quotes of a JSON string.
func escaped(text string) []byte {
	// Strings cannot fail.
	quoted, _ := json.Marshal(text)
	return quoted[1 : len(quoted)-1]
}

// newTemplate encodes a row and cuts the ages of some cells, by their index, out of its
// JSON.
func newTemplate(row *metav1.TableRow, cells map[int]cell) (*Template, error) {
	encoded, err := json.Marshal(row)
	if err != nil {
		return nil, fmt.Errorf("encode row: %w", err)
	}
	const opening = `{"cells":[`
	t := &Template{text: make([]byte, 0, len(encoded))}
	copied, pos, ages := 0, len(opening), totalAges(cells)
	if ages > 0 && !bytes.HasPrefix(encoded, []byte(opening)) {
		return nil, errShape
	}
	for i := 0; i < len(row.Cells) && len(t.holes) < ages; i++ {
		value, err := json.Marshal(row.Cells[i])
		if err != nil {
			return nil, fmt.Errorf("encode cell: %w", err)
		}
		if !bytes.HasPrefix(encoded[pos:], value) {
			return nil, errShape
		}
		end := pos + len(value)
		pos += len(`"`)
		for _, p := range cells[i].parts {
			if p.age == nil {
				pos += len(escaped(p.text))
				continue
			}
			t.text = append(t.text, encoded[copied:pos]...)
			t.holes = append(t.holes, hole{
				seconds: p.age.of.Unix(), nanos: int32(p.age.of.Nanosecond()),
				offset: int32(len(t.text)), until: p.age.until,
			})
			pos += len(escaped(p.age.textAt(cells[i].renderedAt)))
			copied = pos
		}
		pos = end + len(`,`)
	}
	t.text = append(t.text, encoded[copied:]...)
	return t, nil
}

func totalAges(cells map[int]cell) int {
	n := 0
	for _, c := range cells {
		n += c.countAges()
	}
	return n
}
