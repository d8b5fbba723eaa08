package encode

import "weak"

const (
	// warmShare divides the budget: 1/warmShare of it may be filled before any client
	// asks.
	warmShare = 2
	// wireGrowth is about how many times larger than the stored bytes the wire bytes of
	// the two usual forms are together.
	wireGrowth = 3
	// warmGzipReserve divides the budget: 1/warmGzipReserve of it is left for other readers
	// when groups are compressed ahead for gzip.
	warmGzipReserve = 4
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

// WarmGzip compresses a group for gzip ahead of its first reader. It does so only for a group
// that Warm or a reader has encoded. It keeps no plain bytes, because they would fill the
// budget. WarmGzip returns false if the budget has no room for more.
func (f *Form) WarmGzip(run EntryRun) (more bool, err error) {
	b := f.cfg.Budget
	own, _, keep := run.Memo.slotOf(f, run.Entries)
	if !keep || !own.missingDeflate() || own.cold() || own.large() {
		return true, nil
	}
	if b == nil || b.used.Load() >= b.limit-b.limit/warmGzipReserve {
		return false, nil
	}
	own.build.Lock()
	defer own.build.Unlock()
	if !own.missingDeflate() {
		return true, nil
	}
	compress := func(plain *segment) error {
		seg := f.deflate(plain)
		own.build.deflate = weak.Make(seg)
		run.Memo.keep(b, b.keepCompressed, &own.deflate, seg)
		return nil
	}
	if plain := own.plain.segment.Load(); plain != nil {
		return true, compress(plain)
	}
	if z := own.zstd.segment.Load(); z != nil {
		return true, z.useZstdDecompressed(compress)
	}
	return true, nil
}

// CanNormalize reports whether NormalizeAhead finds normal forms.
func (f *Form) CanNormalize() bool { return f.cfg.Transcoder.CanNormalize() }

// NormalizeAhead finds the normal forms of a group's objects (transcode.Normalizer) before their
// first reader.
func (f *Form) NormalizeAhead(run EntryRun) {
	var buf []byte
	for _, e := range run.Entries {
		buf = f.cfg.Transcoder.NormalizeAhead(buf, e)
	}
}
