package transcode

import (
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// Proofs remembers which fingerprints are proven and which are refuted, for all transcoders
// of a process. It is bounded: 65,536 proven fingerprints take 1 MiB. If there are more, all
// are forgotten and proven again. Refuted ones are never forgotten; if there are too many,
// nothing more is proven. Lookups take no lock. All methods are safe for concurrent use.
//
// It also has what transcoders share: values that they walked through before, and the seed of
// fingerprints.
type Proofs struct {
	logger *slog.Logger
	// sample says that one in sample objects is compared though its fingerprint is proven.
	// The objects are chosen at random: a counter would not meet all forms that take turns.
	sample  uint64
	proven  hashSet
	refuted hashSet
	counts  struct{ transcoded, compared, different, refuted, declined, normalized atomic.Int64 }
	last    atomic.Pointer[Difference]
	// logged bounds how many differences are logged.
	logged atomic.Int64
	// seed is the seed of all fingerprints. No client can know it, so none can make objects
	// whose fingerprints collide.
	seed maphash.Seed
	// written are shared values as JSON, values are shared values that are only checked.
	written, values sharedValues

	// mu is held while proven or refuted is changed.
	mu sync.Mutex
}

// Config configures Proofs.
type Config struct {
	// Sample says that one in Sample objects with proven fingerprints is compared. 0 means
	// 128.
	Sample int
	// Logger receives differences. Nil means slog's default.
	Logger *slog.Logger
}

const (
	defaultSample = 128
	// maxProven and maxRefuted bound the numbers of fingerprints.
	maxProven  = 1 << 16
	maxRefuted = 1 << 14
	// maxLogged bounds the differences that are logged over the life of a process. All are
	// counted.
	maxLogged = 200
)

// NewProofs returns Proofs that know no fingerprint.
func NewProofs(cfg Config) *Proofs {
	p := &Proofs{logger: cfg.Logger, sample: uint64(cfg.Sample), seed: maphash.MakeSeed()}
	if p.logger == nil {
		p.logger = slog.Default()
	}
	if p.sample == 0 {
		p.sample = defaultSample
	}
	p.proven.reset()
	p.refuted.reset()
	return p
}

// Counts say what became of the objects that transcoders were asked for.
type Counts struct {
	// Transcoded were sent without Kubernetes' encoder.
	Transcoded int64
	// Compared were encoded both ways, and were equal. Different were encoded both ways,
	// and were not equal.
	Compared, Different int64
	// Refuted have fingerprints of objects that were different, and were not compared again.
	// Declined are not in a table's reach, or stored in another version.
	Refuted, Declined int64
	// Normalized are the objects whose normal form was found. They are transcoded from
	// then on.
	Normalized int64
	// Proven is how many fingerprints are proven now.
	Proven int64
	// Last is the last difference. It is nil if there was none.
	Last *Difference
}

// Counts returns the counts since the start.
func (p *Proofs) Counts() Counts {
	c := &p.counts
	p.mu.Lock()
	defer p.mu.Unlock()
	return Counts{
		Transcoded: c.transcoded.Load(), Compared: c.compared.Load(), Different: c.different.Load(),
		Refuted: c.refuted.Load(), Declined: c.declined.Load(), Normalized: c.normalized.Load(), Proven: int64(p.proven.used),
		Last: p.last.Load(),
	}
}

// verdict says what to do with an object.
type verdict int

const (
	send    verdict = iota // send the transcoder's bytes
	compare                // let Kubernetes encode it too, and compare
	refuse                 // let Kubernetes encode it
)

// judge decides about an object by its fingerprint.
func (p *Proofs) judge(fingerprint uint64) verdict {
	if p.proven.has(fingerprint) {
		if rand.Uint64N(p.sample) == 0 {
			return compare
		}
		p.counts.transcoded.Add(1)
		return send
	}
	if p.refuted.has(fingerprint) {
		p.counts.refuted.Add(1)
		return refuse
	}
	return compare
}

// prove records that an object with the fingerprint was equal.
func (p *Proofs) prove(fingerprint uint64) {
	p.counts.compared.Add(1)
	if p.proven.has(fingerprint) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuted.has(fingerprint) || p.refuted.used >= maxRefuted {
		return
	}
	if p.proven.used >= maxProven {
		p.proven.reset()
	}
	p.proven.add(fingerprint)
}

// refute records that an object with the fingerprint was different. It reports whether the
// fingerprint had been proven.
func (p *Proofs) refute(fingerprint uint64) (wasProven bool) {
	p.counts.different.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuted.used < maxRefuted {
		p.refuted.add(fingerprint)
	}
	return p.proven.remove(fingerprint)
}

// hashSet is a set of fingerprints with open addressing. has takes no lock; the others need
// one.
type hashSet struct {
	slots atomic.Pointer[[]atomic.Uint64]
	// used is how many hashes were added, including the removed ones.
	used int
}

const (
	minSlots = 1 << 8
	// emptySlot ends a search. removedSlot does not.
	emptySlot   = 0
	removedSlot = 1
	firstHash   = 2
)

func (s *hashSet) reset() {
	slots := make([]atomic.Uint64, minSlots)
	s.slots.Store(&slots)
	s.used = 0
}

// find returns the slot of a hash, or the empty one where its search ends.
func find(slots []atomic.Uint64, hash uint64) (slot *atomic.Uint64, found bool) {
	for i := hash; ; i++ {
		slot = &slots[i&uint64(len(slots)-1)]
		switch slot.Load() {
		case hash:
			return slot, true
		case emptySlot:
			return slot, false
		}
	}
}

func (s *hashSet) has(hash uint64) bool {
	_, found := find(*s.slots.Load(), max(hash, firstHash))
	return found
}

func (s *hashSet) add(hash uint64) {
	slots := *s.slots.Load()
	if 2*(s.used+1) > len(slots) {
		larger := make([]atomic.Uint64, 2*len(slots))
		for i := range slots {
			if h := slots[i].Load(); h >= firstHash {
				slot, _ := find(larger, h)
				slot.Store(h)
			}
		}
		slots = larger
		s.slots.Store(&larger)
	}
	hash = max(hash, firstHash)
	if slot, found := find(slots, hash); !found {
		slot.Store(hash)
		s.used++
	}
}

func (s *hashSet) remove(hash uint64) bool {
	slot, found := find(*s.slots.Load(), max(hash, firstHash))
	if found {
		slot.Store(removedSlot)
	}
	return found
}
