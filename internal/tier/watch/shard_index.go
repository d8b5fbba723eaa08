package watch

import (
	"slices"

	"github.com/millrace/millrace/internal/tier/cache"
	"github.com/millrace/millrace/internal/wire/entry"
)

// shardIndex finds the subscriptions to shards that hold a hash. An event is looked up by the
// hashes of its two versions. So many clients that share the events of a resource cost the
// dispatch about what one client of all events costs.
//
// It is an interval tree: the ranges of all subscriptions, sorted by their first hash. The
// range in the middle is the root, and the ranges on its two sides are its subtrees. Each
// range has the largest hash of its subtree, so a search skips subtrees that end below a hash.
// For each range that a search finds, it looks at a logarithmic number of ranges. Ranges may
// overlap, as they do while clients change the number of shards.
//
// A table of the intervals between all bounds, with the subscriptions of each, would have
// a place for each pair of ranges that overlap. Clients choose the ranges, so the table could
// become large. The price of the sorted list is that a new subscription moves all ranges
// after its own. And the next search visits all ranges once, to set their largest hashes.
type shardIndex struct {
	// ranges are sorted by their first hash.
	ranges []shardRange
	// hasLargest says that the ranges' largest hashes are set.
	hasLargest bool
}

// shardRange is one range of hashes of a subscription.
type shardRange struct {
	entry.HashRange
	// largest is the largest hash of the ranges in the subtree.
	largest      uint64
	subscription *subscription
}

// add merges the ranges of a subscription, of which there may be thousands, into the
// present ranges. It begins with the last ones, so that each range is moved once.
func (x *shardIndex) add(s *subscription) {
	added, unmoved := s.Shard.Ranges(), len(x.ranges)
	x.ranges = append(x.ranges, make([]shardRange, len(added))...)
	for to := len(x.ranges) - 1; len(added) > 0; to-- {
		if last := added[len(added)-1]; unmoved == 0 || x.ranges[unmoved-1].First <= last.First {
			x.ranges[to] = shardRange{HashRange: last, subscription: s}
			added = added[:len(added)-1]
		} else {
			unmoved--
			x.ranges[to] = x.ranges[unmoved]
		}
	}
	x.hasLargest = false
}

// remove removes the ranges of a subscription.
func (x *shardIndex) remove(s *subscription) {
	x.ranges = slices.DeleteFunc(x.ranges, func(r shardRange) bool { return r.subscription == s })
	x.hasLargest = false
}

// visit calls use with the subscriptions that have a range which holds hash.
func (x *shardIndex) visit(hash uint64, use func(*subscription)) {
	if !x.hasLargest {
		setLargest(x.ranges)
		x.hasLargest = true
	}
	visitRanges(x.ranges, hash, use)
}

// setLargest sets the largest hashes of a subtree, and returns the largest hash of its
// root.
func setLargest(tree []shardRange) uint64 {
	if len(tree) == 0 {
		return 0
	}
	root := &tree[len(tree)/2]
	root.largest = max(root.Last, setLargest(tree[:len(tree)/2]), setLargest(tree[len(tree)/2+1:]))
	return root.largest
}

// visitRanges does visit's work in a subtree.
func visitRanges(tree []shardRange, hash uint64, use func(*subscription)) {
	for len(tree) > 0 {
		middle := len(tree) / 2
		root := &tree[middle]
		if root.largest < hash {
			return
		}
		visitRanges(tree[:middle], hash, use)
		if root.First > hash {
			return
		}
		if root.Last >= hash {
			use(root.subscription)
		}
		tree = tree[middle+1:]
	}
}

// shardIndexes has an index for each key that shards hash.
type shardIndexes [entry.ShardKeys]shardIndex

// visit calls use with the subscriptions to shards that hold one of the event's versions.
// If the two versions have the same hash, it calls use once for each subscription.
func (x *shardIndexes) visit(e *cache.Event, use func(*subscription)) {
	for key := range x {
		index := &x[key]
		if len(index.ranges) == 0 {
			continue
		}
		hash := func(e *entry.Entry) uint64 { return entry.ShardKey(key).Hash(e) }
		switch {
		case e.Previous == nil:
			index.visit(hash(e.Entry), use)
		case e.Entry == nil:
			index.visit(hash(e.Previous), use)
		default:
			before, after := hash(e.Previous), hash(e.Entry)
			index.visit(after, use)
			if before != after {
				index.visit(before, use)
			}
		}
	}
}
