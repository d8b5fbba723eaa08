package encode

import "github.com/millrace/millrace/internal/wire/entry"

// copySource yields the items that a slot has encoded, for a slot of the same form that
// shares entries with it. Entries of both slots stand in key order, and items are asked
// for in that order, so a source is walked once. The zero value has no items.
type copySource struct {
	// group is the segment of all entries. It is nil if there is none.
	group *segment
	// singles are items that were encoded alone, one cell for each of entries. They are
	// asked only if group is nil.
	singles []cell
	entries []*entry.Entry
	// next is the first entry that was not passed yet.
	next int
}

// copySource returns what can be copied from the slot, which may be nil. Compressed bytes
// are decompressed only if whole says that the caller needs most of the group.
func (s *slot) copySource(whole bool) *copySource {
	if s == nil {
		return &copySource{}
	}
	from := &copySource{entries: s.entries, group: s.plain.load()}
	if from.group == nil && whole {
		if z := s.zstd.load(); z != nil {
			// If it cannot be decompressed, the items are encoded again.
			from.group, _ = z.zstdDecompressed()
		}
	}
	if singles := s.singles.Load(); singles != nil {
		from.singles = *singles
	}
	return from
}

// item returns the bytes of an entry's item, or its row, or neither. An entry that was
// changed is another pointer, so its old item is never taken.
func (s *copySource) item(e *entry.Entry, separator int) ([]byte, Row) {
	for s.next < len(s.entries) && s.entries[s.next].Key < e.Key {
		s.next++
	}
	if s.next >= len(s.entries) || s.entries[s.next] != e {
		return nil, nil
	}
	if s.group != nil {
		if s.group.rows != nil {
			return nil, s.group.rows[s.next]
		}
		return s.group.items(s.next, s.next+1, separator), nil
	}
	if s.singles != nil {
		if seg := s.singles[s.next].load(); seg != nil {
			return seg.single()
		}
	}
	return nil, nil
}
