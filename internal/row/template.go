package row

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

// ErrVolatile says that a row depends on the time in a way that is not
// understood. The request must be answered by Kubernetes' own code.
var ErrVolatile = errors.New("row depends on the time in an unknown way")

// errShape says that a row's JSON does not begin with its cells.
var errShape = errors.New("unexpected shape of an encoded row")

// Template is the JSON of one row of a table. It is immutable and safe for
// concurrent use.
type Template struct {
	// text is the row without what stands in the holes.
	text  []byte
	holes []hole
}

// hole is the place of an age. Its timestamp is kept as two numbers, which take
// half the space of a time.Time.
type hole struct {
	seconds int64
	nanos   int32
	// offset is where the age stands in text.
	offset int32
	until  bool
}

// age is what is printed about a timestamp: the time since it, or until it.
type age struct {
	of    time.Time
	until bool
}

func (a age) at(now time.Time) string {
	if a.until {
		return duration.HumanDuration(a.of.Sub(now))
	}
	return duration.HumanDuration(now.Sub(a.of))
}

// Append appends the row's compact JSON as it stands among the rows of a table
// that is printed now.
func (t *Template) Append(dst []byte, now time.Time) []byte {
	written := int32(0)
	for _, h := range t.holes {
		dst = append(dst, t.text[written:h.offset]...)
		dst = appendEscaped(dst, age{of: time.Unix(h.seconds, int64(h.nanos)), until: h.until}.at(now))
		written = h.offset
	}
	return append(dst, t.text[written:]...)
}

// Size is the memory that the template takes, in bytes.
func (t *Template) Size() int {
	return int(unsafe.Sizeof(*t)) + cap(t.text) + cap(t.holes)*int(unsafe.Sizeof(hole{}))
}

// Fixed reports whether the row is the same at all times.
func (t *Template) Fixed() bool { return len(t.holes) == 0 }

// appendEscaped appends text as it stands between the quotes of a JSON string.
// Ages are plain but for "<invalid>".
func appendEscaped(dst []byte, text string) []byte {
	if strings.HasPrefix(text, "<") {
		return append(dst, escaped(text)...)
	}
	return append(dst, text...)
}

func escaped(text string) []byte {
	// Strings cannot fail.
	quoted, _ := json.Marshal(text)
	return quoted[1 : len(quoted)-1]
}

// newTemplate cuts the ages of some cells out of a row's JSON. The cells are by
// their index.
func newTemplate(row *metav1.TableRow, cells map[int]cell) (*Template, error) {
	encoded, err := json.Marshal(row)
	if err != nil {
		return nil, fmt.Errorf("encode row: %w", err)
	}
	const opening = `{"cells":[`
	t := &Template{text: make([]byte, 0, len(encoded))}
	kept, pos, ages := 0, len(opening), countAges(cells)
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
			t.text = append(t.text, encoded[kept:pos]...)
			t.holes = append(t.holes, hole{
				seconds: p.age.of.Unix(), nanos: int32(p.age.of.Nanosecond()),
				offset: int32(len(t.text)), until: p.age.until,
			})
			pos += len(escaped(p.age.at(cells[i].seen)))
			kept = pos
		}
		pos = end + len(`,`)
	}
	t.text = append(t.text, encoded[kept:]...)
	return t, nil
}

func countAges(cells map[int]cell) int {
	n := 0
	for _, c := range cells {
		n += c.ages()
	}
	return n
}
