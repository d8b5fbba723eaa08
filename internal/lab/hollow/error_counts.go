package hollow

import (
	"cmp"
	"slices"
)

// ErrorCounts has how often each kind of error came. It is nil until the first one.
type ErrorCounts map[string]int64

// Add counts an error. Kinds beyond a number are counted together.
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
	for what, n := range c {
		kinds = append(kinds, ErrorKind{What: what, Count: n})
	}
	slices.SortFunc(kinds, func(a, b ErrorKind) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.What, b.What))
	})
	return kinds
}
