package cache

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/resource"
)

// order is what a tree is sorted by: nil is the entries' key, else a term's
// value ahead of it. Each value is a group of entries in key order.
type order struct {
	term resource.Term
	// used is when a reader last chose the index, in Unix nanoseconds.
	used atomic.Int64
}

// A key in an index is the group, a NUL and the entry's key. Groups are those of
// the values, one of entries without the term, and one for what cannot be told
// apart so: entries without attributes, and values that hold a NUL. Readers of
// any group look at the last one too.
const (
	absentGroup = "a"
	unindexedGroup    = "o"
	valueGroup  = "v"
	groupEnd    = "\x00"
)

// group names an entry's group by its two parts.
func (o *order) group(e *resource.Entry) (kind, value string) {
	if e.Attributes == nil {
		return unindexedGroup, ""
	}
	value, ok := o.term.Value(e)
	switch {
	case !ok:
		return absentGroup, ""
	case strings.Contains(value, groupEnd):
		return unindexedGroup, ""
	}
	return valueGroup, value
}

// key is the entry's key in the order.
func (o *order) key(e *resource.Entry) string {
	if o == nil {
		return e.Key
	}
	kind, value := o.group(e)
	return kind + value + groupEnd + e.Key
}

// compare orders an entry against a key without making the entry's.
func (o *order) compare(e *resource.Entry, key string) int {
	if o == nil {
		return strings.Compare(e.Key, key)
	}
	kind, value := o.group(e)
	for _, part := range [...]string{kind, value, groupEnd} {
		n := min(len(part), len(key))
		if c := strings.Compare(part[:n], key[:n]); c != 0 {
			return c
		}
		if len(part) > len(key) {
			return 1
		}
		key = key[n:]
	}
	return strings.Compare(e.Key, key)
}

// valuePrefix begins the keys of a value's group. Values with a NUL have none
// of their own.
func valuePrefix(value string) (string, bool) {
	return valueGroup + value + groupEnd, !strings.Contains(value, groupEnd)
}

func (o *order) touch(now time.Time) { o.used.Store(now.UnixNano()) }

func (o *order) idle(now time.Time) time.Duration {
	return time.Duration(now.UnixNano() - o.used.Load())
}
