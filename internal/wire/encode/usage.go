package encode

// Usage adds the bytes that the memo keeps to byForm, under the names of its forms. It
// leaves out inherited slots, whose bytes are dropped when they are copied or no longer
// needed.
func (m *Memo) Usage(byForm map[string]int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.mu.slots {
		if n := s.keptBytes(); n > 0 {
			byForm[s.form.cfg.Name] += n
		}
	}
}

// keptBytes returns the memory that the segments of the slot's cells take, as the budget counts it.
func (s *slot) keptBytes() int64 {
	n := s.plain.cost() + s.deflate.cost() + s.zstd.cost()
	if singles := s.singles.Load(); singles != nil {
		for i := range *singles {
			n += (*singles)[i].cost()
		}
	}
	return n
}

// cost returns the memory that the cell's segment takes, in bytes. It is 0 if the cell is empty. It
// does not count as a read of the cell.
func (c *cell) cost() int64 {
	if seg := c.segment.Load(); seg != nil {
		return seg.cost()
	}
	return 0
}
