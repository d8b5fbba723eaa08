package cache

import (
	"cmp"
	"encoding/binary"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/wire/entry"
)

// indexOrder is the order of an index: by a term's value, then by the entry's key. The
// entries with one value form a group. The value of a shard's term is the hash. A nil
// *indexOrder is the order by key alone, as in a resource's tree.
type indexOrder struct {
	term entry.Term
	// lastUsed is when a reader last chose the index, in Unix nanoseconds.
	lastUsed atomic.Int64
}

// A key in an index consists of the group's kind, its value, a NUL and the entry's key.
// There is a group for each value, and one for entries without the term. The unindexed group
// has the entries that an index cannot place: entries without attributes, and entries whose
// value contains a NUL. A lookup of any group includes the unindexed one. A hash has hashBytes
// bytes, the most significant one first, and no NUL after it.
const (
	absentGroup    = "a"
	unindexedGroup = "o"
	valueGroup     = "v"
	groupEnd       = "\x00"
	hashBytes      = 8
)

// hash returns an entry's hash. It returns false if the order is not by hash, or if the
// entry has none.
func (o *indexOrder) hash(e *entry.Entry) (hash uint64, ok bool) {
	key, ok := o.term.ShardKey()
	if !ok || e.Attributes == nil {
		return 0, false
	}
	return key.Hash(e), true
}

// group returns the kind and the value of an entry's group. It is not for entries that have
// a hash.
func (o *indexOrder) group(e *entry.Entry) (kind, value string) {
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

// key returns the entry's key in the order.
func (o *indexOrder) key(e *entry.Entry) string {
	if o == nil {
		return e.Key
	}
	if hash, ok := o.hash(e); ok {
		return hashPrefix(hash) + e.Key
	}
	kind, value := o.group(e)
	return kind + value + groupEnd + e.Key
}

// hashPrefix returns the prefix of the keys of entries with a hash.
func hashPrefix(hash uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte(valueGroup), hash))
}

// compare compares an entry's key in the order with another key. It allocates nothing.
func (o *indexOrder) compare(e *entry.Entry, key string) int {
	if o == nil {
		return strings.Compare(e.Key, key)
	}
	if hash, ok := o.hash(e); ok {
		return compareHash(hash, e.Key, key)
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

// compareHash compares a key in the order with that of an entry that has a hash.
func compareHash(hash uint64, entryKey, key string) int {
	n := min(len(key), len(valueGroup))
	if c := strings.Compare(valueGroup, key[:n]); c != 0 {
		return c
	}
	key = key[n:]
	var keyHash [hashBytes]byte
	n = copy(keyHash[:], key)
	if c := cmp.Compare(hash, binary.BigEndian.Uint64(keyHash[:])); c != 0 {
		return c
	}
	if n < hashBytes {
		return 1 // key ends within its hash
	}
	return strings.Compare(entryKey, key[n:])
}

// valuePrefix returns the prefix of the keys in a value's group. It returns false for a
// value with a NUL, which has no group of its own.
func valuePrefix(value string) (string, bool) {
	return valueGroup + value + groupEnd, !strings.Contains(value, groupEnd)
}

func (o *indexOrder) markUsed(now time.Time) { o.lastUsed.Store(now.UnixNano()) }

// idleTime returns the time since the index was last used.
func (o *indexOrder) idleTime(now time.Time) time.Duration {
	return time.Duration(now.UnixNano() - o.lastUsed.Load())
}
