package usage

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// partners are the shapes that a client asks for most, or the clients that ask for
// a shape most, by CPU. There are few: a newcomer takes the place of the least and
// inherits its weight, so the heaviest stay.
type partners[K any] [partnersKept]partner[K]

const (
	// partnersKept is one more than are told, for newcomers.
	partnersKept = 4
	// halfWindow is how much a partner's younger and older half each tell of.
	halfWindow = 5 * time.Minute
)

// partner is one of them.
type partner[K any] struct {
	hash   uint64
	key    *K
	weight float32
	// half numbers the younger half; halves are it and the one before.
	half   int32
	halves [2]partnerHalf
}

// partnerHalf is what was asked in five minutes.
type partnerHalf struct {
	requests uint32
	cpu      float32
	// addresses has a bit for each 64th of the client's addresses.
	addresses uint64
}

func halfOf(minute int64) int32 { return int32(minute / int64(halfWindow/time.Minute)) }

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

// add notes a request. It returns the partner, whose key is nil if it is new.
func (ps *partners[K]) add(hash uint64, half int32, r *account) *partner[K] {
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
	found.weight += float32(r.weight())
	now := &found.halves[0]
	now.requests++
	now.cpu += float32(r.cost.CPU)
	now.addresses |= 1 << (r.host % 64)
	return found
}

// partnership is what a partner asked in the last five to ten minutes.
type partnership[K any] struct {
	key      *K
	requests uint64
	cpu      float64
	// addresses is about from how many, math.Inf for very many.
	addresses float64
}

// top returns partners that asked lately, those with most CPU first.
func (ps *partners[K]) top(half int32) []partnership[K] {
	var all []partnership[K]
	for i := range ps {
		p := &ps[i]
		if p.key == nil {
			continue
		}
		p.advance(half)
		young, old := p.halves[0], p.halves[1]
		if n := uint64(young.requests) + uint64(old.requests); n > 0 {
			all = append(all, partnership[K]{
				key: p.key, requests: n, cpu: float64(young.cpu) + float64(old.cpu),
				addresses: spread(young.addresses | old.addresses),
			})
		}
	}
	slices.SortFunc(all, func(a, b partnership[K]) int {
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

// spread estimates how many set the bits of a bitmap (linear counting).
func spread(bitmap uint64) float64 {
	empty := 64 - bits.OnesCount64(bitmap)
	if empty == 0 {
		return math.Inf(1)
	}
	return 64 * math.Log(64/float64(empty))
}
