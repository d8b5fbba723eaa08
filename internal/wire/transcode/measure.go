package transcode

import (
	"errors"

	"github.com/millrace/millrace/internal/wire/entry"
)

// Fingerprint stands for all entries of one structure: what is proven of one is taken as proven of
// all (Proofs).
type Fingerprint uint64

// Measure returns how many bytes Append would append for an entry, and the entry's
// fingerprint, without writing anything. It returns false for an entry that would not be
// spliced, or whose fingerprint is not proven. It returns false for all JSON too, whose size only
// writing tells, and for a Transcoder that is nil or stopped.
func (t *Transcoder) Measure(e *entry.Entry) (size int, fingerprint Fingerprint, ok bool) {
	if t == nil || t.stopped.Load() || t.writesJSON() {
		return 0, 0, false
	}
	w := t.walker(nil, e)
	defer w.release()
	err := e.ReadNormal(t.normalizer, func(value []byte, edited bool) error {
		content, whole := t.kind.content(value)
		if ok = whole && w.message(t.kind.root, content) && !w.incomplete; ok {
			s := t.splice(content, w.revision)
			size = t.spliceSize(&s)
		}
		w.hash = fingerprintOf(w.hash, edited)
		return nil
	})
	return size, Fingerprint(w.hash), ok && err == nil && t.proofs.proven.has(w.hash)
}

// errNormalizedMeanwhile says that the normal form of an entry was found after the entry was
// measured.
var errNormalizedMeanwhile = errors.New("the entry was measured with other bytes")

// AppendMeasured is Append for an entry for which Measure has returned true, with the fingerprint
// that it returned. The entry is not walked through again.
func (t *Transcoder) AppendMeasured(dst []byte, e *entry.Entry, fingerprint Fingerprint, encode func(dst []byte) ([]byte, error)) ([]byte, error) {
	verdict := refuse
	if !t.stopped.Load() {
		verdict = t.proofs.judge(uint64(fingerprint))
	}
	if verdict == refuse {
		return encode(dst)
	}
	start := len(dst)
	w := t.walker(nil, e)
	defer w.release()
	err := e.ReadNormal(t.normalizer, func(value []byte, edited bool) error {
		if fingerprintOf(uint64(fingerprint), edited) != uint64(fingerprint) {
			return errNormalizedMeanwhile
		}
		content, _ := t.kind.content(value)
		s := t.splice(content, w.revision)
		dst = t.appendSplice(dst, &s)
		return nil
	})
	switch {
	case err != nil:
		return encode(dst[:start])
	case verdict == send:
		return dst, nil
	}
	return t.compare(dst, start, e, uint64(fingerprint), encode)
}
