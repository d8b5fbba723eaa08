package encode

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace/millrace/internal/resource"
)

// ErrShape says that an encoder's output is not what the form's framing
// expects. The request must be answered by Kubernetes' own code.
var ErrShape = errors.New("unexpected shape of an encoded list")

// Config is what a Form needs to know about its resource.
type Config struct {
	// Name tells people which form it is, as in "v1 json".
	Name string
	// Decode turns an entry into the object that Kubernetes' storage layer would
	// return: defaulted, in internal form, with its resourceVersion set.
	Decode func(*resource.Entry) (runtime.Object, error)
	// List makes the list of an object, or of none, as Kubernetes' handlers give
	// it to the encoder.
	List func(Meta, ...runtime.Object) (runtime.Object, error)
	// Object makes what a GET gives to the encoder. Nil is the object itself.
	Object func(runtime.Object) (runtime.Object, error)
	// Row encodes an item of a table, nil for what is no table. A form has either
	// rows or items.
	Row func(*resource.Entry) (Row, error)
	// Volatile says that the bytes tell ages, so that those of a group are not kept, and
	// those of an event for no longer than a second.
	Volatile bool
	// Encoder converts to the served version and writes the media type.
	Encoder runtime.Encoder
	// Framing says how the media type joins items into a list.
	Framing Framing
	// MediaType is the Content-Type of the answer.
	MediaType string
	// Events and Framer write what surrounds a watch's objects. Only forms of
	// watches have them.
	Events runtime.Encoder
	Framer runtime.Framer
	// Budget bounds what memos keep, Recent what is kept of events. They are
	// shared by all forms of a process.
	Budget       *Budget
	RecentFrames *RecentFrames
}

// Form is one wire form of a resource. It is immutable and safe for concurrent use.
type Form struct {
	cfg Config
	// empty surrounds the items of a list without metadata.
	empty listEnvelope
	// alone surrounds an item as a GET answers it; nil where that is not known.
	alone *listEnvelope
}

// NewForm checks that the encoder's lists have the shape that the framing expects.
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

// SetModel tells the form what an object looks like alone, so that a GET can be
// answered from an item's bytes. obj is any object; it is not kept.
func (f *Form) SetModel(obj runtime.Object) error {
	var alone bytes.Buffer
	if err := f.encodeAlone(&alone, obj); err != nil {
		return err
	}
	item, err := f.appendObject(nil, obj, new(bytes.Buffer))
	if err != nil {
		return err
	}
	if surrounding, ok := f.cfg.Framing.around(alone.Bytes(), item); ok {
		f.alone = &surrounding
	}
	return nil
}

// Name tells people which form it is.
func (f *Form) Name() string { return f.cfg.Name }

// MediaType is the Content-Type of what the form encodes.
func (f *Form) MediaType() string { return f.cfg.MediaType }

// IsTable reports whether the form is a table's.
func (f *Form) IsTable() bool { return f.cfg.Row != nil }

// Object encodes the one object of a span as a GET answers it.
func (f *Form) Object(span Span) ([]byte, error) {
	e := span.Entries[span.From]
	if f.alone != nil {
		item, _, err := f.item(span.Memo, span.Entries, span.From)
		if err != nil {
			return nil, err
		}
		return f.cfg.Framing.wrap(item, f.alone)
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

// envelope returns what surrounds a list's items. size is the number of bytes
// of all items with their separators; framings other than protobuf ignore it.
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

// appendItem appends an object as it stands inside a list, or as the frame that
// adds it.
func (f *Form) appendItem(dst []byte, e *resource.Entry, scratch *bytes.Buffer) ([]byte, error) {
	if f.cfg.Framing.isWatch() {
		return f.event(dst, watch.Added, e, e.Revision)
	}
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

// SetMeta writes a list's metadata as Kubernetes' storage does.
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
	return nil
}

// PlainList makes Config.List of a function that makes empty lists.
func PlainList(newList func() runtime.Object) func(Meta, ...runtime.Object) (runtime.Object, error) {
	return func(m Meta, objs ...runtime.Object) (runtime.Object, error) {
		list := newList()
		// Without objects this makes the items [] and not null.
		if err := meta.SetList(list, append([]runtime.Object{}, objs...)); err != nil {
			return nil, err
		}
		return list, m.SetMeta(list)
	}
}
