package transcode

import (
	"strconv"
	"strings"
	"time"
)

// Difference is where an object's bytes differed from the bytes of Kubernetes' encoder. It
// has no values, for objects may be secret.
type Difference struct {
	Time time.Time
	// Form is the form's name.
	Form string
	// Key and Revision are the object's.
	Key      string
	Revision int64
	// Place is a path in JSON, or the number of a byte in protobuf.
	Place string
	// Stopped says that the fingerprint had been proven, so the form is not transcoded any
	// more.
	Stopped bool
}

// pathAt returns the path of the value at text[place] in JSON, as in ".spec.ports[1].name". The
// JSON must be well formed. Fields that are about to begin at the place have the path of
// what is around them.
func pathAt(text []byte, place int) string {
	var names []string // of the open objects and lists; "" for a list's
	var counts []int   // the index in each open list, -1 for objects
	for i := 0; i < min(place, len(text)); i++ {
		last := len(counts) - 1
		switch text[i] {
		case '{':
			names, counts = append(names, ""), append(counts, -1)
		case '[':
			names, counts = append(names, ""), append(counts, 0)
		case '}', ']':
			names, counts = names[:last], counts[:last]
		case ',':
			if counts[last] >= 0 {
				counts[last]++
			} else {
				names[last] = ""
			}
		case '"':
			end := stringEnd(text, i)
			if end < min(place, len(text)-1) && text[end+1] == ':' && counts[last] < 0 {
				names[last] = string(text[i+1 : end])
			}
			i = end
		}
	}
	var path strings.Builder
	for i, name := range names {
		switch {
		case counts[i] >= 0:
			path.WriteString("[" + strconv.Itoa(counts[i]) + "]")
		case name != "":
			path.WriteString("." + name)
		}
	}
	return path.String()
}

// stringEnd returns where the string ends that begins at i.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}
