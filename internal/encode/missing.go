package encode

import "github.com/millrace/millrace/internal/resource"

// AppendMissing appends the entries of a span that would have to be decoded to write it in
// this form now, because no memo keeps their bytes. A conversion webhook is asked for these
// ahead. The answer may be outdated when the span is written.
func (f *Form) AppendMissing(dst []*resource.Entry, span Span) []*resource.Entry {
	if f.cfg.Volatile {
		return append(dst, span.Entries[span.From:span.To]...)
	}
	own, inherited, _ := span.Memo.slotOf(f, span.Entries)
	if !own.cold() {
		return dst
	}
	from, to := span.From, span.To
	if span.coversMost() {
		from, to = 0, len(span.Entries)
	}
	separator := len(f.cfg.Framing.separator())
	sources := []*copySource{own.copySource(false), inherited.copySource(span.coversMost())}
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
