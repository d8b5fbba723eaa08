package encode

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/wire/entry"
	"github.com/millrace/millrace/internal/wire/transcode"
)

// ErrShape says that an encoder's output does not have the shape that the form's framing
// expects. Kubernetes' own code must answer the request.
var ErrShape = errors.New("unexpected shape of an encoded list")

// Config configures Form. Decode, List, Encoder and MediaType are required, with the exceptions
// that are noted.
type Config struct {
	// Name is the form's name in logs and reports, as in "v1 json".
	Name string
	// Decode turns an entry into the object that Kubernetes' storage layer would
	// return: defaulted, in internal form, with its resourceVersion set.
	Decode func(*entry.Entry) (runtime.Object, error)
	// List makes the list of an object, or an empty list, as Kubernetes' handlers give it
	// to the encoder. Forms of watches need no List.
	List func(Meta, ...runtime.Object) (runtime.Object, error)
	// Object turns an object into what a GET gives to the encoder. Nil means the object
	// itself.
	Object func(runtime.Object) (runtime.Object, error)
	// Row makes an object's row of a table. A form with Row has rows in place of items.
	// Nil means that the form is not a table's.
	Row func(*entry.Entry) (Row, error)
	// Volatile says that the bytes tell ages. The bytes of a group are not kept then, and
	// the bytes of an event are kept for a second at most.
	Volatile bool
	// Encoder converts to the served version and writes the media type.
	Encoder runtime.Encoder
	// Transcoder writes items, or the objects of frames, without Decode and Encoder where
	// the bytes are proven to be the same. Nil means that Decode and Encoder write all of
	// them.
	Transcoder *transcode.Transcoder
	// Framing says how the media type joins items to a list.
	Framing Framing
	// MediaType is the Content-Type of the answer.
	MediaType string
	// Events and Framer write what surrounds an object in a watch. Only forms of watches
	// have them.
	Events runtime.Encoder
	Framer runtime.Framer
	// Budget bounds what memos keep. If it is nil, nothing is kept. All forms of a process
	// share it and RecentFrames.
	Budget *Budget
	// RecentFrames bounds what is kept of events. If it is nil, nothing is kept.
	RecentFrames *RecentFrames
}

// Form is one wire form of a resource: a media type, and a kind of object or table.
//
// It knows no types. It lets Kubernetes' encoder write a list of one object, and cuts away
// what the encoder writes for an empty list. So its items are the same as in Kubernetes,
// also after an upgrade. The cost is the encoding of an empty list with each item, and a
// check. If the output does not begin and end like the empty list, the form returns
// ErrShape, and Kubernetes answers the request.
//
// Verbatim forms, and items that a transcoder writes, do without that encoder.
//
// A Form is safe for concurrent use, except for SetModel. Memos find their slots by the
// pointer, so a form is made once for each route.
type Form struct {
	cfg Config
	// verbatim is set if entries are sent as they are. See NewVerbatimForm.
	verbatim *VerbatimConfig
	// empty is what surrounds the items of a list without metadata.
	empty listEnvelope
	// alone is what surrounds an item in the answer to a GET. If it is nil, GETs encode
	// the object.
	alone *listEnvelope
	// bookmarks has the newest bookmarks. Only forms of watches have any.
	bookmarks bookmarkFrames
	// turns is how many slots have taken a turn (see slot.takesTurn).
	turns atomic.Uint32
}

// NewForm makes a form. It checks that the encoder writes an empty list, or a frame, in
// the shape that the framing expects.
func NewForm(cfg Config) (*Form, error) {
	f := &Form{cfg: cfg}
	if cfg.Framing.isWatch() {
		return f, f.checkFrames()
	}
	encoded, err := f.encodeList(Meta{})
	if err != nil {
		return nil, fmt.Errorf("encode empty list: %w", err)
	}
	if f.empty, err = cfg.Framing.split(encoded); err != nil {
		return nil, fmt.Errorf("split empty list as %s: %w", cfg.MediaType, err)
	}
	return f, nil
}

// SetModel lets GETs be answered from an item's bytes. The form learns from obj, which is
// any object of the kind, what surrounds an object alone in place of a list's item. obj is
// not kept. SetModel is called before the form is used, or never.
func (f *Form) SetModel(obj runtime.Object) error {
	var alone bytes.Buffer
	if err := f.encodeAlone(&alone, obj); err != nil {
		return err
	}
	item, err := f.appendObject(nil, obj, new(bytes.Buffer))
	if err != nil {
		return err
	}
	if surrounding, ok := f.cfg.Framing.findEnvelope(alone.Bytes(), item); ok {
		f.alone = &surrounding
	}
	return nil
}

// Name returns the form's name in logs and reports.
func (f *Form) Name() string { return f.cfg.Name }

// MediaType returns the Content-Type of the form's answers.
func (f *Form) MediaType() string { return f.cfg.MediaType }

// transcodes reports whether most objects are written without Kubernetes' encoder.
func (f *Form) transcodes() bool { return f.verbatim != nil || f.cfg.Transcoder != nil }

// IsTable reports whether the form is a table's.
func (f *Form) IsTable() bool { return f.cfg.Row != nil }

// Object encodes the one object of a run as a GET answers it. The bytes are the caller's.
func (f *Form) Object(run EntryRun) ([]byte, error) {
	e := run.Entries[run.From]
	if f.verbatim != nil {
		return f.verbatim.object(e)
	}
	if f.alone != nil {
		item, _, err := f.item(run.Memo, run.Entries, run.From)
		if err != nil {
			return nil, err
		}
		if !f.cfg.Framing.namesKind(item, f.alone) {
			return f.cfg.Framing.wrap(item, f.alone)
		}
	}
	obj, err := f.cfg.Decode(e)
	if err != nil {
		return nil, entryError(e, err)
	}
	var buf bytes.Buffer
	err = f.encodeAlone(&buf, obj)
	return buf.Bytes(), entryError(e, err)
}

// encodeAlone encodes an object as a GET answers it.
func (f *Form) encodeAlone(buf *bytes.Buffer, obj runtime.Object) error {
	if f.cfg.Object != nil {
		var err error
		if obj, err = f.cfg.Object(obj); err != nil {
			return err
		}
	}
	return f.encodeObject(buf, obj)
}

func (f *Form) encodeObject(buf *bytes.Buffer, obj runtime.Object) error {
	if err := f.cfg.Encoder.Encode(obj, buf); err != nil {
		return fmt.Errorf("encode object: %w", err)
	}
	return nil
}

// envelope returns what surrounds a list's items. size is the number of bytes of all items
// with their separators. Only protobuf needs it, whose header states it.
func (f *Form) envelope(m Meta, size int64) (header, trailer []byte, err error) {
	encoded, err := f.encodeList(m)
	if err != nil {
		return nil, nil, err
	}
	surrounding, err := f.cfg.Framing.split(encoded)
	if err != nil {
		return nil, nil, err
	}
	header, trailer = f.cfg.Framing.join(surrounding, size)
	return header, trailer, nil
}

func (f *Form) encodeList(m Meta, objs ...runtime.Object) ([]byte, error) {
	var buf bytes.Buffer
	err := f.encodeListTo(&buf, m, objs...)
	return buf.Bytes(), err
}

func (f *Form) encodeListTo(buf *bytes.Buffer, m Meta, objs ...runtime.Object) error {
	list, err := f.cfg.List(m, objs...)
	if err != nil {
		return fmt.Errorf("make list: %w", err)
	}
	if err := f.cfg.Encoder.Encode(list, buf); err != nil {
		return fmt.Errorf("encode list: %w", err)
	}
	return nil
}

// appendItem appends an entry as an item of a list or, for watches, as an ADDED frame.
func (f *Form) appendItem(dst []byte, e *entry.Entry, scratch *bytes.Buffer) ([]byte, error) {
	if f.cfg.Framing.isWatch() {
		return f.appendEvent(dst, watch.Added, e, e.Revision)
	}
	if f.verbatim != nil {
		return f.verbatim.append(dst, e, true)
	}
	return f.cfg.Transcoder.Append(dst, e, func(dst []byte) ([]byte, error) { return f.encodeItemOf(dst, e, scratch) })
}

// encodeItemOf appends an entry as an item of a list, by Kubernetes' encoder.
func (f *Form) encodeItemOf(dst []byte, e *entry.Entry, scratch *bytes.Buffer) ([]byte, error) {
	obj, err := f.cfg.Decode(e)
	if err != nil {
		return dst, entryError(e, err)
	}
	dst, err = f.appendObject(dst, obj, scratch)
	if err != nil {
		return dst, entryError(e, fmt.Errorf("encode item %s: %w", e.Key, err))
	}
	return dst, nil
}

func (f *Form) appendObject(dst []byte, obj runtime.Object, scratch *bytes.Buffer) ([]byte, error) {
	scratch.Reset()
	if err := f.encodeListTo(scratch, Meta{}, obj); err != nil {
		return dst, err
	}
	item, err := f.cfg.Framing.cut(scratch.Bytes(), f.empty)
	return append(dst, item...), err
}

// SetMeta sets a list's metadata as Kubernetes' storage does. Lists of custom resources
// cannot say what shard they are.
//
// Upstream: k8s.io/apiserver/pkg/storage.APIObjectVersioner.UpdateList; compare at each upgrade.
// Upstream: k8s.io/apiserver/pkg/storage.SelectionPredicate.SetShardInfoOnList; compare at each upgrade.
func (m Meta) SetMeta(list runtime.Object) error {
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return fmt.Errorf("access list metadata: %w", err)
	}
	if m.ResourceVersion != 0 {
		accessor.SetResourceVersion(strconv.FormatInt(m.ResourceVersion, 10))
	}
	accessor.SetContinue(m.Continue)
	accessor.SetRemainingItemCount(m.Remaining)
	if sharded, ok := list.(metav1.ShardedListInterface); ok && m.Shard != "" {
		sharded.SetShardInfo(&metav1.ShardInfo{Selector: m.Shard})
	}
	return nil
}

// PlainList makes a Config.List out of a function that makes empty lists.
func PlainList(newList func() runtime.Object) func(Meta, ...runtime.Object) (runtime.Object, error) {
	return func(m Meta, objs ...runtime.Object) (runtime.Object, error) {
		list := newList()
		// A slice that is not nil makes the items of an empty list [] and not null.
		if err := meta.SetList(list, append([]runtime.Object{}, objs...)); err != nil {
			return nil, err
		}
		return list, m.SetMeta(list)
	}
}
