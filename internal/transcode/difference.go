package transcode

import (
	"strconv"
	"strings"
)

// commonPrefix returns how many bytes a and b have in common from the beginning.
func commonPrefix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// pathAt returns the path of the value at a place in JSON, as in ".spec.ports[1].name". The
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
