package transcode

import (
	"bytes"
	"context"
	"hash/maphash"
	"log/slog"
	"strconv"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/millrace/millrace/internal/resource"
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
// concurrent use. A nil Transcoder has every object encoded.
type Transcoder struct {
	kind   *Kind
	target Target
	proofs *Proofs
	// name is the form's name in logs.
	name string
	// seed keeps its fingerprints apart from those of other forms. No client can know it, so
	// none can make objects whose fingerprints collide.
	seed  maphash.Seed
	start uint64
	// stopped says that a proven fingerprint was refuted: fingerprints do not tell enough
	// about this kind.
	stopped atomic.Bool
}

// New returns a Transcoder that has proven nothing yet. name is the form's name in logs.
func New(kind *Kind, target Target, name string, proofs *Proofs) *Transcoder {
	t := &Transcoder{kind: kind, target: target, proofs: proofs, name: name, seed: maphash.MakeSeed()}
	t.start = maphash.String(t.seed, name)
	return t
}

// Append appends an entry to dst. encode appends what Kubernetes' encoder writes for it. It
// is called unless the transcoder's bytes are proven, and its bytes are then used. If it
// fails, dst is returned as it was.
func (t *Transcoder) Append(dst []byte, e *resource.Entry, encode func(dst []byte) ([]byte, error)) ([]byte, error) {
	if t == nil || t.stopped.Load() {
		return encode(dst)
	}
	start := len(dst)
	dst, fingerprint, ok := t.transcode(dst, e)
	if !ok {
		t.proofs.counts.declined.Add(1)
		return encode(dst[:start])
	}
	switch t.proofs.judge(fingerprint) {
	case send:
		return dst, nil
	case refuse:
		return encode(dst[:start])
	}
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

// transcode appends an entry to dst, and returns its fingerprint. It returns false if the
// entry is not in the tables' reach. What it appended has no meaning then.
func (t *Transcoder) transcode(dst []byte, e *resource.Entry) (_ []byte, fingerprint uint64, ok bool) {
	w := walkers.Get().(*walker)
	defer w.release()
	var revision [20]byte
	w.dst, w.revision = dst, strconv.AppendInt(revision[:0], e.Revision, 10)
	w.seed, w.hash = t.seed, t.start
	err := e.Read(func(value []byte) error {
		content, whole := t.kind.content(value)
		ok = whole && t.write(w, content)
		return nil
	})
	return w.dst, w.hash, ok && err == nil
}

// write appends an object to w.dst.
func (t *Transcoder) write(w *walker, content []byte) bool {
	if t.target == ItemProtobuf || t.target == ObjectProtobuf {
		return t.writeProtobuf(w, content)
	}
	w.writes = true
	if t.target == ItemJSON {
		return w.object(t.kind.root, nil, content)
	}
	w.dst = append(w.dst, t.kind.opening...)
	if !w.message(t.kind.root, content) {
		return false
	}
	w.dst = append(w.dst, '}', '\n')
	return true
}

// writeProtobuf appends an object that has one encoding only, so that its stored bytes are
// those that Kubernetes' encoder would write.
func (t *Transcoder) writeProtobuf(w *walker, content []byte) bool {
	if !w.message(t.kind.root, content) || w.incomplete {
		return false
	}
	s := newSplice(content, w.revision)
	if t.target == ItemProtobuf {
		const itemsTag = 2<<3 | lengthDelimited
		w.dst = protowire.AppendVarint(append(w.dst, itemsTag), uint64(s.size()))
		w.dst = s.append(w.dst)
		return true
	}
	w.dst = protowire.AppendVarint(append(w.dst, t.kind.head...), uint64(s.size()))
	w.dst = append(s.append(w.dst), unknownTail...)
	return true
}

// differ notes a difference. It logs where it is, and no values: objects may be secret.
func (t *Transcoder) differ(e *resource.Entry, fingerprint uint64, ours, theirs []byte) {
	level, message := slog.LevelInfo, "An object is not sent as it is stored, and is encoded by Kubernetes. Others with the same fields will be too."
	if t.proofs.refute(fingerprint) {
		t.stopped.Store(true)
		level, message = slog.LevelError, "A proven fingerprint was refuted. Objects of this form are encoded by Kubernetes until the next start."
	}
	if t.proofs.logged.Add(1) > maxLogged {
		return
	}
	place := "byte " + strconv.Itoa(commonPrefix(ours, theirs))
	if t.target == ItemJSON || t.target == ObjectJSON {
		place = pathAt(ours, commonPrefix(ours, theirs))
	}
	t.proofs.logger.Log(context.Background(), level, message, "form", t.name, "key", e.Key, "revision", e.Revision, "difference", place)
}
