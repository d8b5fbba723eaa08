package encode

import "github.com/millrace/millrace/internal/resource"

// AppendMissing appends the entries of a span that would have to be decoded for it now:
// nobody has kept bytes of them in this form.
func (f *Form) AppendMissing(dst []*resource.Entry, span Span) []*resource.Entry {
	if f.cfg.Volatile {
		return append(dst, span.Entries[span.From:span.To]...)
	}
	own, before, _ := span.Memo.slotOf(f, span.Entries)
	if !own.cold() {
		return dst
	}
	from, to := span.From, span.To
	if span.coversMost() {
		from, to = 0, len(span.Entries)
	}
	separator := len(f.cfg.Framing.separator())
	sources := []*copySource{own.copySource(false), before.copySource(span.coversMost())}
next:
	for _, e := range span.Entries[from:to] {
		for _, s := range sources {
			if item, row := s.item(e, separator); item != nil || row != nil {
				continue next
			}
		}
		dst = append(dst, e)
	}
	return dst
}

// HasFrame reports whether a change's frame is there already.
func (f *Form) HasFrame(c *Change) bool {
	cell := c.Frames.cell(f, c.Kind)
	cell.build.Lock()
	defer cell.build.Unlock()
	return !f.cfg.Volatile && cell.frame.Value() != nil
}
