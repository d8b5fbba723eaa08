package entry

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/sharding"
)

// ShardKey is the field of objects' metadata whose hash places an object in a shard.
type ShardKey uint8

const (
	// ShardByUID spreads objects evenly.
	ShardByUID ShardKey = iota
	// ShardByNamespace has all objects of a namespace in one shard.
	ShardByNamespace
	// ShardKeys is the number of keys.
	ShardKeys
)

// String returns the key as selectors write it.
func (k ShardKey) String() string {
	if k == ShardByNamespace {
		return "object.metadata.namespace"
	}
	return "object.metadata.uid"
}

// Hash returns the hash of an entry's field.
func (k ShardKey) Hash(e *Entry) uint64 {
	if k == ShardByNamespace {
		return HashShardKey(e.Namespace())
	}
	return e.UIDHash
}

// The parameters of FNV-1a with 64 bits.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// HashShardKey returns the hash of a field's value: FNV-1a with 64 bits. It allocates
// nothing.
//
// Upstream: k8s.io/apimachinery/pkg/sharding.HashField; compare at each upgrade.
func HashShardKey[T string | []byte](value T) uint64 {
	hash := uint64(fnvOffset)
	for i := range len(value) {
		hash = (hash ^ uint64(value[i])) * fnvPrime
	}
	return hash
}

// HashRange is a range of hashes, with both of its ends.
type HashRange struct{ First, Last uint64 }

// Shard is the part of a resource's objects that a shard selector asks for (KEP-5866): the
// objects whose hash lies in one of some ranges. It is immutable. A nil Shard is all
// objects.
type Shard struct {
	// Key is the field that is hashed.
	Key ShardKey
	// ranges are sorted, and there is a hash between any two of them.
	ranges []HashRange
	// text is the selector.
	text string
}

// ErrShard means that a shard selector is one that this server does not know.
var ErrShard = errors.New("unknown shard selector")

// NewShard returns the shard of a selector. It returns nil for a nil or empty selector.
//
// Upstream: k8s.io/apimachinery/pkg/sharding.shardSelector.Matches; compare at each upgrade.
func NewShard(selector sharding.Selector) (*Shard, error) {
	if selector == nil || selector.Empty() {
		return nil, nil
	}
	requirements := selector.Requirements()
	s := &Shard{text: selector.String()}
	switch requirements[0].Key {
	case ShardByUID.String():
		s.Key = ShardByUID
	case ShardByNamespace.String():
		s.Key = ShardByNamespace
	default:
		return nil, fmt.Errorf("%w: key %q", ErrShard, requirements[0].Key)
	}
	for _, r := range requirements {
		hashes, err := parseHashRange(r)
		if err != nil {
			return nil, err
		}
		if r.Key != s.Key.String() {
			return nil, fmt.Errorf("%w: keys %q and %q", ErrShard, s.Key, r.Key)
		}
		s.ranges = append(s.ranges, hashes)
	}
	s.ranges = mergeRanges(s.ranges)
	return s, nil
}

// hashesEnd is the end of a range that has the largest hash.
const hashesEnd = "0x10000000000000000"

// parseHashRange parses the ends of a range. The range of a selector excludes its end.
func parseHashRange(r sharding.ShardRangeRequirement) (HashRange, error) {
	first, err := parseHash(r.Start)
	if err != nil || r.End == hashesEnd {
		return HashRange{first, math.MaxUint64}, err
	}
	end, err := parseHash(r.End)
	if err != nil || end <= first {
		return HashRange{}, fmt.Errorf("%w: from %s to %s", ErrShard, r.Start, r.End)
	}
	return HashRange{first, end - 1}, nil
}

// parseHash parses "0x" and 16 hexadecimal digits.
func parseHash(text string) (uint64, error) {
	digits, ok := strings.CutPrefix(text, "0x")
	hash, err := strconv.ParseUint(digits, 16, 64)
	if err != nil || !ok || len(digits) != 16 {
		return 0, fmt.Errorf("%w: hash %q", ErrShard, text)
	}
	return hash, nil
}

// mergeRanges sorts ranges, and joins ranges that overlap or touch.
func mergeRanges(ranges []HashRange) []HashRange {
	slices.SortFunc(ranges, func(a, b HashRange) int { return cmp.Compare(a.First, b.First) })
	merged := ranges[:1]
	for _, r := range ranges[1:] {
		last := &merged[len(merged)-1].Last
		if *last == math.MaxUint64 || r.First <= *last+1 {
			*last = max(*last, r.Last)
		} else {
			merged = append(merged, r)
		}
	}
	return merged
}

// Ranges returns the ranges of hashes in ascending order. They are disjoint. The caller
// must not change them.
func (s *Shard) Ranges() []HashRange { return s.ranges }

// Holds reports whether an entry is in the shard.
func (s *Shard) Holds(e *Entry) bool { return s == nil || s.holdsHash(s.Key.Hash(e)) }

func (s *Shard) holdsHash(hash uint64) bool {
	i := sort.Search(len(s.ranges), func(i int) bool { return s.ranges[i].Last >= hash })
	return i < len(s.ranges) && s.ranges[i].First <= hash
}

// Share returns the part of all hashes that the shard has, as a fraction of 1.
func (s *Shard) Share() float64 {
	share := 0.0
	for _, r := range s.ranges {
		share += (float64(r.Last-r.First) + 1) / math.Exp2(64)
	}
	return share
}

// String returns the selector. It returns "" for a nil Shard.
func (s *Shard) String() string {
	if s == nil {
		return ""
	}
	return s.text
}
