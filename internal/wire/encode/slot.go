package encode

import (
	"sync"
	"sync/atomic"
	"weak"

	"github.com/millrace/millrace/internal/wire/entry"
	"github.com/millrace/millrace/internal/wire/transcode"
)

// slot is a group in one form (see the picture in the package comment). It has cells for
// what the budget keeps, and weak pointers to what some reader still has.
type slot struct {
	form    *Form
	entries []*entry.Entry
	// build is held by the goroutine that encodes or compresses the group. Others that
	// need the same bytes wait for it; readers of filled cells do not. It comes before
	// Memo.mu in the lock order.
	//
	// This is not a sync.Once or a single flight, because the result may vanish. The budget
	// may empty the cells, and the weak pointers end with the last reader. Then the next
	// reader builds again. One lock serves all codings, since compressed segments are made
	// of the plain one. Errors are not remembered.
	build struct {
		sync.Mutex
		// The segment in each coding, as long as a reader or the transient queue has it.
		// So concurrent readers share a segment that is not kept.
		plain, deflate, zstd weak.Pointer[segment]
		// fingerprints are the fingerprints of all entries. They are nil unless Form.measure
		// has measured all of them.
		fingerprints []transcode.Fingerprint
	}
	// readers counts the calls of takesTurn. turn is the slot's place among the slots of its
	// form, which take turns in being kept.
	readers, turn atomic.Uint32
	*cells
	// singles has a cell for each entry that may be asked for alone. It is nil before the
	// first such request. Once the whole group is kept, the cells are emptied.
	singles atomic.Pointer[[]cell]
	// plainSize is the plain segment's length in bytes. It is 0 before the segment was
	// first encoded or measured.
	plainSize atomic.Int64
}

// cells hold the segment of a slot in each coding. They are allocated apart from the slot.
// The budget's queues may refer to them after the slot is gone, and must not keep the
// slot's entries in memory.
type cells struct {
	// plain holds the segment, deflate the blocks for gzip, zstd a zstd frame. If there
	// is no room for the plain segment, it is decompressed from zstd when needed.
	plain, deflate, zstd cell
}

// copyable reports whether a succeeding slot may find items to copy.
func (s *slot) copyable() bool {
	return s.plain.segment.Load() != nil || s.zstd.segment.Load() != nil || s.singles.Load() != nil
}

// sizeUnknown reports whether the plain segment was never encoded or measured.
// Prefetching asks this method and the ones below what a reader of the slot would have
// to encode first.
func (s *slot) sizeUnknown() bool { return s.plainSize.Load() == 0 }

// cold reports whether no segment is kept from which another coding could be made.
func (s *slot) cold() bool { return s.plain.segment.Load() == nil && s.missingZstd() }

func (s *slot) missingDeflate() bool { return s.deflate.segment.Load() == nil }
func (s *slot) missingZstd() bool    { return s.zstd.segment.Load() == nil }

// large reports whether the group's plain bytes are too large to be kept. While their
// length is not known, large guesses by the size of the stored objects.
func (s *slot) large() bool { return large(s.estimatedSize(), len(s.entries)) }

// estimatedSize returns the plain segment's length in bytes. While that is not known,
// it returns the size of the stored objects.
func (s *slot) estimatedSize() int64 {
	size := s.plainSize.Load()
	if size == 0 {
		for _, e := range s.entries {
			size += int64(e.Size())
		}
	}
	return size
}

// drop gives back all bytes of the slot.
func (s *slot) drop(b *Budget) {
	b.drop(&s.plain)
	b.drop(&s.deflate)
	b.drop(&s.zstd)
	s.dropSingles(b)
}

func (s *slot) dropSingles(b *Budget) {
	if singles := s.singles.Swap(nil); singles != nil {
		for i := range *singles {
			b.drop(&(*singles)[i])
		}
	}
}
