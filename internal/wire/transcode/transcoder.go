package transcode

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/wire/entry"
)

// Target is what a Transcoder writes.
type Target int

const (
	// ItemJSON is an object as it stands inside a list. It has no kind.
	ItemJSON Target = iota
	// ObjectJSON is an object alone, with its kind and with the line's end.
	ObjectJSON
	// ItemProtobuf is an object as a field of a list's items.
	ItemProtobuf
	// ObjectProtobuf is an object alone in Kubernetes' envelope.
	ObjectProtobuf
)

// Transcoder writes the objects of one kind and version in one form. Its methods are safe for
// concurrent use. A nil Transcoder lets Kubernetes encode every object.
type Transcoder struct {
	kind   *Kind
	target Target
	proofs *Proofs
	// normalizer finds the normal forms of objects. The forms of a resource share it. It may
	// be nil.
	normalizer *Normalizer
	// name is the form's name in logs.
	name string
	// start keeps its fingerprints apart from the fingerprints of other forms.
	start uint64
	// stopped says that a proven fingerprint was refuted: fingerprints do not tell enough
	// about this kind. Or that giveUp has stopped a custom kind.
	stopped atomic.Bool
	// sent and unproven are for custom kinds. sent counts objects that were sent without a
	// comparison, unproven objects that were compared because nothing was proven of them.
	sent, unproven atomic.Int64
}

// New returns a Transcoder that has proven nothing yet. name is the form's name in logs. Without
// a normalizer, objects that are sent otherwise than they are stored are encoded each time.
//
// Metadata alone is not written from normal forms: what Kubernetes stores may lack annotations
// that it still sends with the metadata alone. Nor is it often sent otherwise than it is stored.
func New(kind *Kind, target Target, name string, proofs *Proofs, normalizer *Normalizer) *Transcoder {
	if kind.partial {
		normalizer = nil
	}
	return &Transcoder{kind: kind, target: target, name: name, proofs: proofs, normalizer: normalizer, start: rand.Uint64()}
}

// Append appends an entry to dst. encode appends what Kubernetes' encoder writes for it. It
// is called unless the transcoder's bytes are proven, and its bytes are then used. If it
// fails, dst is returned as it was.
func (t *Transcoder) Append(dst []byte, e *entry.Entry, encode func(dst []byte) ([]byte, error)) ([]byte, error) {
	if t == nil || t.stopped.Load() {
		return encode(dst)
	}
	if t.normalizer.expects() {
		t.normalize(e)
	}
	start := len(dst)
	dst, fingerprint, decided := t.decide(dst, e)
	if decided == refuse && t.normalize(e) {
		dst, fingerprint, decided = t.decide(dst[:start], e)
	}
	switch decided {
	case send:
		if t.kind.custom {
			t.sent.Add(1)
		}
		return dst, nil
	case refuse:
		return encode(dst[:start])
	}
	if t.kind.custom && !t.proofs.proven.has(fingerprint) {
		t.giveUp()
	}
	return t.compare(dst, start, e, fingerprint, encode)
}

// normalize looks for the normal form of an entry, and counts it if there is one.
func (t *Transcoder) normalize(e *entry.Entry) bool {
	found := t.normalizer.normalize(e)
	if found {
		t.proofs.counts.normalized.Add(1)
	}
	return found
}

// CanNormalize reports whether NormalizeAhead finds normal forms now. It does not for metadata
// alone, nor while transcoding is stopped.
func (t *Transcoder) CanNormalize() bool {
	return t != nil && t.normalizer != nil && !t.stopped.Load()
}

// NormalizeAhead finds the normal form of an entry that would be refused as it is stored, before
// a client asks for it. It uses and returns a buffer.
func (t *Transcoder) NormalizeAhead(buf []byte, e *entry.Entry) []byte {
	if !t.CanNormalize() || e.NormalOf(t.normalizer) != nil {
		return buf
	}
	if !t.normalizer.expects() {
		var fingerprint uint64
		var ok bool
		if buf, fingerprint, ok = t.transcode(buf[:0], e); ok && !t.proofs.refuted.has(fingerprint) {
			return buf
		}
	}
	t.normalize(e)
	return buf
}

// decide appends an entry to dst, and says whether that may be sent.
func (t *Transcoder) decide(dst []byte, e *entry.Entry) (_ []byte, fingerprint uint64, decided verdict) {
	dst, fingerprint, ok := t.transcode(dst, e)
	if !ok {
		t.proofs.counts.declined.Add(1)
		return dst, 0, refuse
	}
	return dst, fingerprint, t.proofs.judge(fingerprint)
}

// giveUp counts an object of a custom kind whose fingerprint is not proven. It stops the
// transcoder once there are more than enough of them, and more than one for each share objects
// that were sent. Maps with keys of their users' choice give each object a fingerprint of its
// own.
func (t *Transcoder) giveUp() {
	const enough, share = 1000, 4
	if n := t.unproven.Add(1); n > enough && share*n > t.sent.Load() {
		t.stopped.Store(true)
	}
}

// compare lets Kubernetes encode an entry whose transcoded bytes are dst[start:], and
// compares the two results.
func (t *Transcoder) compare(dst []byte, start int, e *entry.Entry, fingerprint uint64, encode func(dst []byte) ([]byte, error)) ([]byte, error) {
	end := len(dst)
	both, err := encode(dst)
	if err != nil {
		return dst[:start], err
	}
	ours, theirs := both[start:end], both[end:]
	if bytes.Equal(ours, theirs) {
		t.proofs.prove(fingerprint)
		return both[:end], nil
	}
	t.differ(e, fingerprint, ours, theirs)
	return both[:start+copy(both[start:], theirs)], nil
}

// transcode appends an entry to dst, and returns its fingerprint. If the tables do not
// describe the entry, it returns false, and what it appended has no meaning.
func (t *Transcoder) transcode(dst []byte, e *entry.Entry) (_ []byte, fingerprint uint64, ok bool) {
	w := t.walker(dst, e)
	defer w.release()
	err := e.ReadNormal(t.normalizer, func(value []byte, edited bool) error {
		if t.kind.custom {
			ok = t.writeCustom(w, value)
		} else {
			content, whole := t.kind.content(value)
			ok = whole && t.write(w, content)
		}
		w.hash = fingerprintOf(w.hash, edited)
		return nil
	})
	return w.dst, w.hash, ok && err == nil
}

// fingerprintOf returns the fingerprint of a walk. Fingerprints of normal bytes are proven
// apart from fingerprints of stored bytes, since a proof of normal bytes claims more. The
// last bit tells them apart.
func fingerprintOf(hash uint64, edited bool) uint64 {
	if hash &^= 1; edited {
		hash |= 1
	}
	return hash
}

// writeCustom appends a custom resource to w.dst. It returns false for targets of protobuf.
func (t *Transcoder) writeCustom(w *walker, value []byte) bool {
	if !t.writesJSON() || !w.customObject(t.kind, value) {
		return false
	}
	if t.target == ObjectJSON {
		w.dst = append(w.dst, '\n')
	}
	return true
}

// walker returns a walker for an entry. The caller releases it.
func (t *Transcoder) walker(dst []byte, e *entry.Entry) *walker {
	w := walkers.Get().(*walker)
	w.dst, w.seed, w.hash = dst, t.proofs.seed, t.start
	w.revision = strconv.AppendInt(w.digits[:0], e.Revision, 10)
	w.proofs, w.partial = t.proofs, t.kind.partial && t.writesJSON()
	w.setWrites(t.writesJSON())
	return w
}

func (t *Transcoder) writesJSON() bool { return t.target == ItemJSON || t.target == ObjectJSON }

// write appends an object to w.dst.
func (t *Transcoder) write(w *walker, content []byte) bool {
	switch {
	case t.target == ItemJSON && !t.kind.partial:
		return w.object(t.kind.root, nil, content)
	case t.writesJSON():
		w.dst = append(w.dst, t.kind.opening...)
		if !w.message(t.kind.root, content) {
			return false
		}
		if w.dst = append(w.dst, '}'); t.target == ObjectJSON {
			w.dst = append(w.dst, '\n')
		}
		return true
	}
	// The object has one encoding only, so Kubernetes' encoder would write its stored
	// bytes.
	if !w.message(t.kind.root, content) || w.incomplete {
		return false
	}
	s := t.splice(content, w.revision)
	w.dst = t.appendSplice(w.dst, &s)
	return true
}

// differ records a difference. It logs where it is, and no values: objects may be secret.
func (t *Transcoder) differ(e *entry.Entry, fingerprint uint64, ours, theirs []byte) {
	d := &Difference{Time: time.Now(), Form: t.name, Key: e.Key, Revision: e.Revision}
	level, message := slog.LevelInfo, "An object is not sent as it is stored, and is encoded by Kubernetes. Others with the same fields will be too."
	if t.proofs.refute(fingerprint) {
		t.stopped.Store(true)
		d.Stopped = true
		level, message = slog.LevelError, "A proven fingerprint was refuted. Objects of this form are encoded by Kubernetes until the next start."
	}
	d.Place = "byte " + strconv.Itoa(entry.CommonPrefix(ours, theirs))
	if t.writesJSON() {
		d.Place = pathAt(ours, entry.CommonPrefix(ours, theirs))
	}
	t.proofs.last.Store(d)
	if t.proofs.logged.Add(1) <= maxLogged {
		t.proofs.logger.Log(context.Background(), level, message, "form", d.Form, "key", d.Key, "revision", d.Revision, "difference", d.Place)
	}
}
