package hollow

import (
	"cmp"
	"slices"
)

// ErrorCounts maps a kind of error to the number of its occurrences. The zero value is empty
// and ready to use.
type ErrorCounts map[string]int64

// Add counts an error. It counts kinds beyond the first maxKinds as "other errors".
func (c *ErrorCounts) Add(kind string, maxKinds int) {
	if *c == nil {
		*c = ErrorCounts{}
	}
	if _, known := (*c)[kind]; !known && len(*c) >= maxKinds {
		kind = "other errors"
	}
	(*c)[kind]++
}

// Kinds returns all kinds, the most frequent first.
func (c ErrorCounts) Kinds() (kinds []ErrorKind) {
	for kind, n := range c {
		kinds = append(kinds, ErrorKind{Message: kind, Count: n})
	}
	slices.SortFunc(kinds, func(a, b ErrorKind) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Message, b.Message))
	})
	return kinds
}
