package usage

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// partners are the most expensive shapes of a client, or the most expensive clients of a shape.
//
// It is a small Space-Saving sketch, as heavyHitters is a large one. A new partner takes
// the place of the lightest partner and inherits its weight. The zero value is empty.
type partners[K any] [maxPartners]partner[K]

const (
	// maxPartners is one more than reports show. The spare place is for newcomers.
	maxPartners = 4
	// halfWindow is the length of each of a partner's two halves.
	halfWindow = 5 * time.Minute
)

// partner is one of partners. It is free while key is nil.
type partner[K any] struct {
	hash uint64
	// key points to the key of the partner's own account, which never changes.
	key    *K
	weight float32
	// half is the number of the younger half, by halfOf.
	half int32
	// halves are the younger half, and the half before it.
	halves [2]partnerHalf
}

// partnerHalf adds up the requests of halfWindow. cpu is in seconds.
type partnerHalf struct {
	requests uint32
	cpu      float32
	// addresses is a bitmap with 64 bits for linear counting of addresses: each address
	// sets the bit of its hash.
	addresses uint64
}

// halfOf returns the number of the half that a minute belongs to.
func halfOf(minute int64) int32 { return int32(minute / int64(halfWindow/time.Minute)) }

// advance makes half the younger half, unless it is that already. It halves the weight.
func (p *partner[K]) advance(half int32) {
	switch {
	case half <= p.half:
		return
	case half == p.half+1:
		p.halves[1] = p.halves[0]
	default:
		p.halves[1] = partnerHalf{}
	}
	p.halves[0], p.half = partnerHalf{}, half
	p.weight /= 2
}

// add adds a request. If the key of the partner that add returns is nil, the partner is
// new, and the caller sets its key.
func (ps *partners[K]) add(hash uint64, half int32, c *charge) *partner[K] {
	least := &ps[0]
	found := (*partner[K])(nil)
	for i := range ps {
		p := &ps[i]
		p.advance(half)
		if p.key != nil && p.hash == hash {
			found = p
			break
		}
		if p.weight < least.weight || p.key == nil && least.key != nil {
			least = p
		}
	}
	if found == nil {
		*least = partner[K]{hash: hash, half: half, weight: least.weight}
		found = least
	}
	found.weight += float32(c.weight())
	recent := &found.halves[0]
	recent.requests++
	recent.cpu += float32(c.cost.CPU)
	recent.addresses |= 1 << (c.host % 64)
	return found
}

// partnerSummary adds up both halves of a partner: the last five to ten minutes.
type partnerSummary[K any] struct {
	key      *K
	requests uint64
	// cpu is in seconds.
	cpu float64
	// addresses is an estimate of the number of addresses. It is +Inf if there are very
	// many.
	addresses float64
}

// top returns the partners with recent requests, the partner with most CPU first.
func (ps *partners[K]) top(half int32) []partnerSummary[K] {
	var all []partnerSummary[K]
	for i := range ps {
		p := &ps[i]
		if p.key == nil {
			continue
		}
		p.advance(half)
		young, old := p.halves[0], p.halves[1]
		if n := uint64(young.requests) + uint64(old.requests); n > 0 {
			all = append(all, partnerSummary[K]{
				key: p.key, requests: n, cpu: float64(young.cpu) + float64(old.cpu),
				addresses: estimateDistinct(young.addresses | old.addresses),
			})
		}
	}
	slices.SortFunc(all, func(a, b partnerSummary[K]) int {
		switch {
		case a.cpu > b.cpu:
			return -1
		case a.cpu < b.cpu:
			return 1
		}
		return int(b.requests) - int(a.requests)
	})
	return all
}

// estimateDistinct estimates the number of distinct hashes that set the bits of a
// bitmap, by linear counting.
func estimateDistinct(bitmap uint64) float64 {
	empty := 64 - bits.OnesCount64(bitmap)
	if empty == 0 {
		return math.Inf(1)
	}
	return 64 * math.Log(64/float64(empty))
}
