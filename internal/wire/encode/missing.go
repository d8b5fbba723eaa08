package encode

import "github.com/millrace/millrace/internal/wire/entry"

// AppendMissing appends the entries that would have to be decoded to write a run in this form
// now, because no memo keeps their bytes. A conversion webhook is asked for these ahead. The
// result may be outdated when the run is written.
func (f *Form) AppendMissing(dst []*entry.Entry, run EntryRun) []*entry.Entry {
	if f.cfg.Volatile {
		return append(dst, run.Entries[run.From:run.To]...)
	}
	own, inherited, _ := run.Memo.slotOf(f, run.Entries)
	if !own.cold() {
		return dst
	}
	from, to := run.From, run.To
	if run.coversMost() {
		from, to = 0, len(run.Entries)
	}
	separatorLen := len(f.cfg.Framing.separator())
	sources := []*copySource{own.asCopySource(false), inherited.asCopySource(run.coversMost())}
next:
	for _, e := range run.Entries[from:to] {
		for _, s := range sources {
			if item, row := s.item(e, separatorLen); item != nil || row != nil {
				continue next
			}
		}
		dst = append(dst, e)
	}
	return dst
}
