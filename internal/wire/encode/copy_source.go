package encode

import "github.com/millrace/millrace/internal/wire/entry"

// copySource yields the items that a slot has encoded, for a slot of the same form that
// shares entries with it. The caller asks for items in key order, so the entries are walked
// through once. The zero value has no items.
type copySource struct {
	// group is the plain segment of all entries. It is nil if the slot has none at hand.
	group *segment
	// singles are items that were encoded alone, one cell for each of entries. They are
	// used only if group is nil.
	singles []cell
	entries []*entry.Entry
	// next is the index of the first entry that was not walked past.
	next int
}

// asCopySource returns what can be copied from the slot, which may be nil. With
// decompress, for callers that need most of the group, it decompresses a compressed segment.
func (s *slot) asCopySource(decompress bool) *copySource {
	if s == nil {
		return &copySource{}
	}
	from := &copySource{entries: s.entries, group: s.plain.load()}
	if from.group == nil && decompress {
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

// item returns the bytes of an entry's item, or its row, or neither. A changed entry has another
// pointer, so its old item is never taken. separatorLen is the length of a separator.
func (s *copySource) item(e *entry.Entry, separatorLen int) ([]byte, Row) {
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
		return s.group.items(s.next, s.next+1, separatorLen), nil
	}
	if s.singles != nil {
		if seg := s.singles[s.next].load(); seg != nil {
			return seg.single()
		}
	}
	return nil, nil
}
