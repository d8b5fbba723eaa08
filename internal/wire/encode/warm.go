package encode

const (
	// warmShare is the part of the budget that may be filled before any client asks: one
	// half of it.
	warmShare = 2
	// wireGrowth is about how much larger wire bytes are than stored ones, in the two
	// usual forms together.
	wireGrowth = 3
)

// Warm encodes a group ahead of its first reader. stored is the size in bytes of all
// objects that are being warmed. If their wire bytes fit into half of the budget they are
// kept plain, otherwise compressed. Large objects are left alone. Warm returns false if
// the budget has no room for more.
func (f *Form) Warm(run EntryRun, stored int64) (more bool, err error) {
	b := f.cfg.Budget
	own, _, _ := run.Memo.slotOf(f, run.Entries)
	if !own.cold() {
		return true, nil
	}
	if b == nil || b.used.Load() >= b.limit/warmShare {
		return false, nil
	}
	if own.large() {
		return true, nil
	}
	if wireGrowth*stored > b.limit/warmShare {
		_, err = f.compressedSegment(run.Memo, run.Entries, Zstd)
	} else {
		_, err = f.plainSegment(run.Memo, run.Entries)
	}
	return true, err
}

// CanNormalize reports whether NormalizeAhead does anything.
func (f *Form) CanNormalize() bool { return f.cfg.Transcoder != nil }

// NormalizeAhead finds the normal forms of a group's objects (transcode.Normalizer) before their
// first reader.
func (f *Form) NormalizeAhead(run EntryRun) {
	var buf []byte
	for _, e := range run.Entries {
		buf = f.cfg.Transcoder.NormalizeAhead(buf, e)
	}
}
