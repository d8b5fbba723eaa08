package encode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/wire/entry"
)

// The fields of metav1.WatchEvent and of the RawExtension in it.
const (
	eventType    protowire.Number = 1
	eventObject  protowire.Number = 2
	extensionRaw protowire.Number = 1
)

// isWatch reports whether items are frames of a watch.
func (f Framing) isWatch() bool { return f == WatchJSON || f == WatchProtobuf }

// appendFrame appends the frame of an event. object is encoded as in the answer to a GET.
func (f Framing) appendFrame(dst []byte, kind watch.EventType, object []byte) []byte {
	if f == WatchProtobuf {
		raw := protowire.SizeTag(extensionRaw) + protowire.SizeBytes(len(object))
		size := protowire.SizeTag(eventType) + protowire.SizeBytes(len(kind)) +
			protowire.SizeTag(eventObject) + protowire.SizeBytes(raw)
		dst = binary.BigEndian.AppendUint32(dst, uint32(size))
		dst = protowire.AppendTag(dst, eventType, protowire.BytesType)
		dst = protowire.AppendString(dst, string(kind))
		dst = protowire.AppendTag(dst, eventObject, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(raw))
		dst = protowire.AppendTag(dst, extensionRaw, protowire.BytesType)
		return protowire.AppendBytes(dst, object)
	}
	dst = append(dst, `{"type":"`...)
	dst = append(dst, kind...)
	dst = append(dst, `","object":`...)
	dst = append(dst, bytes.TrimSuffix(object, []byte("\n"))...)
	return append(dst, "}\n"...)
}

// checkFrames returns an error unless appendFrame writes what the media type's own
// encoder writes.
func (f *Form) checkFrames() error {
	var encodedObject bytes.Buffer
	if err := f.encodeObject(&encodedObject, &metav1.Status{Status: metav1.StatusFailure, Message: `a "quoted" <word>`}); err != nil {
		return err
	}
	object := encodedObject.Bytes()
	var want bytes.Buffer
	frames := f.cfg.Framer.NewFrameWriter(&want)
	event := &metav1.WatchEvent{Type: string(watch.Error), Object: runtime.RawExtension{Raw: object}}
	var encoded bytes.Buffer
	if err := f.cfg.Events.Encode(event, &encoded); err != nil {
		return fmt.Errorf("encode watch event: %w", err)
	}
	if _, err := frames.Write(encoded.Bytes()); err != nil {
		return fmt.Errorf("frame watch event: %w", err)
	}
	if got := f.cfg.Framing.appendFrame(nil, watch.Error, object); !bytes.Equal(got, want.Bytes()) {
		return fmt.Errorf("%w: watch event %q, want %q", ErrShape, got, want.Bytes())
	}
	return nil
}

// signal encodes the frame of a bookmark or an error.
func (f *Form) signal(kind watch.EventType, obj runtime.Object) ([]byte, error) {
	encode := f.encodeAlone
	if _, ok := obj.(*metav1.Status); ok {
		encode = f.encodeObject
	}
	var object bytes.Buffer
	if err := encode(&object, obj); err != nil {
		return nil, err
	}
	return f.cfg.Framing.appendFrame(nil, kind, object.Bytes()), nil
}

// appendEvent appends the frame of an entry with revision for its own. The revisions differ
// in the last version of a deleted object, which is sent with the revision of the deletion.
func (f *Form) appendEvent(dst []byte, kind watch.EventType, e *entry.Entry, revision int64) ([]byte, error) {
	if e.Revision != revision {
		e = e.Clone()
		e.Revision = revision
	}
	scratch := scratchBuffers.Get().(*bytes.Buffer)
	defer putScratch(scratch)
	object, err := f.appendAlone(scratch.AvailableBuffer(), e)
	if err != nil {
		return dst, err
	}
	scratch.Write(object) // The buffer keeps the room that object took.
	return f.cfg.Framing.appendFrame(slices.Grow(dst, len(object)+frameOverhead), kind, object), nil
}

// appendAlone appends an entry as a GET answers it.
func (f *Form) appendAlone(dst []byte, e *entry.Entry) ([]byte, error) {
	if f.verbatim != nil {
		return f.verbatim.append(dst, e, false)
	}
	return f.cfg.Transcoder.Append(dst, e, func(dst []byte) ([]byte, error) { return f.encodeAloneOf(dst, e) })
}

// encodeAloneOf appends an entry as a GET answers it, by Kubernetes' encoder.
func (f *Form) encodeAloneOf(dst []byte, e *entry.Entry) ([]byte, error) {
	obj, err := f.cfg.Decode(e)
	if err != nil {
		return dst, entryError(e, err)
	}
	object := scratchBuffers.Get().(*bytes.Buffer)
	defer putScratch(object)
	if err := f.encodeAlone(object, obj); err != nil {
		return dst, entryError(e, fmt.Errorf("encode %s: %w", e.Key, err))
	}
	return append(dst, object.Bytes()...), nil
}

// scratchBuffers hold an object until it is framed or compressed.
var scratchBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func putScratch(b *bytes.Buffer) {
	const largest = 4 << 20
	if b.Cap() <= largest {
		b.Reset()
		scratchBuffers.Put(b)
	}
}

// frameOverhead is an upper bound of the bytes that surround an object in a frame.
const frameOverhead = 48
