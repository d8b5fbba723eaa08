package encode

// Usage adds the bytes that the memo keeps to those of each form, by its name. It
// leaves out what is kept of the leaves that this one replaced, which goes when it
// is copied or no longer needed.
func (m *Memo) Usage(byForm map[string]int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.mu.slots {
		if n := s.keptBytes(); n > 0 {
			byForm[s.form.cfg.Name] += n
		}
	}
}

// keptBytes is what the slot holds within the budget, in bytes.
func (s *slot) keptBytes() int64 {
	n := s.plain.cost() + s.deflated.cost() + s.zipped.cost()
	if single := s.singles.Load(); single != nil {
		for i := range *single {
			n += (*single)[i].cost()
		}
	}
	return n
}

// cost is what the cell holds. It does not count as a read.
func (c *cell) cost() int64 {
	if w := c.segment.Load(); w != nil {
		return w.cost()
	}
	return 0
}
