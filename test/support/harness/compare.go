package harness

import "regexp"

// QuotedManagedFields matches the managed fields of an object that a message quotes,
// between $1 and $2. A name follows them, or the end of the metadata. Comparisons leave
// them out: their order depends on whether a second passed between two writes.
var QuotedManagedFields = regexp.MustCompile(`(\\*"managedFields\\*":)\[.*?\](,\\*"name\\*":|},\\*"spec\\*":)`)

// IsVolatileHeader reports whether a response header differs between any two answers.
func IsVolatileHeader(name string) bool {
	switch name {
	case "Audit-Id", "Date", "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid":
		return true
	}
	return false
}

// FirstDifference returns the length of the longest common prefix of two texts.
func FirstDifference[T ~string | ~[]byte](a, b T) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
