package encode

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/resource"
)

// ErrShape says that an encoder's output is not what the form's framing
// expects. The request must be answered by Kubernetes' own code.
var ErrShape = errors.New("unexpected shape of an encoded list")

// Config is what a Form needs to know about its resource.
type Config struct {
	// Decode turns an entry into the object that Kubernetes' storage layer would
	// return: defaulted, in internal form, with its resourceVersion set.
	Decode func(*resource.Entry) (runtime.Object, error)
	// NewList makes an empty list in internal form.
	NewList func() runtime.Object
	// Encoder converts to the served version and writes the media type.
	Encoder runtime.Encoder
	// Framing says how the media type joins items into a list.
	Framing Framing
	// MediaType is the Content-Type of the answer.
	MediaType string
	// Budget bounds what memos keep. It is shared by all forms of a process.
	Budget *Budget
}

// Form is one wire form of a resource. It is immutable and safe for concurrent use.
type Form struct {
	cfg Config
	// empty surrounds the items of a list without a resource version.
	empty frame
}

// NewForm checks that the encoder's lists have the shape that the framing expects.
func NewForm(cfg Config) (*Form, error) {
	f := &Form{cfg: cfg}
	var buf bytes.Buffer
	if err := cfg.Encoder.Encode(emptyList(cfg.NewList()), &buf); err != nil {
		return nil, fmt.Errorf("encode empty list: %w", err)
	}
	var err error
	if f.empty, err = cfg.Framing.split(buf.Bytes()); err != nil {
		return nil, fmt.Errorf("split empty %T as %s: %w", cfg.NewList(), cfg.MediaType, err)
	}
	return f, nil
}

// MediaType is the Content-Type of what the form encodes.
func (f *Form) MediaType() string { return f.cfg.MediaType }

// Object encodes one object as a GET answers it.
func (f *Form) Object(e *resource.Entry) ([]byte, error) {
	obj, err := f.cfg.Decode(e)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	if err := f.cfg.Encoder.Encode(obj, &buf); err != nil {
		return nil, fmt.Errorf("encode object %s: %w", e.Key, err)
	}
	return buf.Bytes(), nil
}

// envelope returns what surrounds a list's items. size is the number of bytes
// of all items with their separators; framings other than protobuf ignore it.
func (f *Form) envelope(resourceVersion, size int64) (header, trailer []byte, err error) {
	encoded, err := f.EmptyList(resourceVersion)
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

// EmptyList encodes a list without items.
func (f *Form) EmptyList(resourceVersion int64) ([]byte, error) {
	list := emptyList(f.cfg.NewList())
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, fmt.Errorf("access list metadata: %w", err)
	}
	accessor.SetResourceVersion(strconv.FormatInt(resourceVersion, 10))
	var buf bytes.Buffer
	if err := f.cfg.Encoder.Encode(list, &buf); err != nil {
		return nil, fmt.Errorf("encode list header: %w", err)
	}
	return buf.Bytes(), nil
}

// appendItem appends an object as it stands inside a list.
func (f *Form) appendItem(dst []byte, e *resource.Entry, scratch *bytes.Buffer) ([]byte, error) {
	obj, err := f.cfg.Decode(e)
	if err != nil {
		return dst, err
	}
	list := f.cfg.NewList()
	if err := meta.SetList(list, []runtime.Object{obj}); err != nil {
		return dst, fmt.Errorf("make list of one: %w", err)
	}
	scratch.Reset()
	if err := f.cfg.Encoder.Encode(list, scratch); err != nil {
		return dst, fmt.Errorf("encode item %s: %w", e.Key, err)
	}
	item, err := f.cfg.Framing.cut(scratch.Bytes(), f.empty)
	if err != nil {
		return dst, fmt.Errorf("cut item %s: %w", e.Key, err)
	}
	return append(dst, item...), nil
}

// emptyList makes the items non-nil: Kubernetes sends [] and never null.
func emptyList(list runtime.Object) runtime.Object {
	// It fails on what is no list, which the encoder then says better.
	_ = meta.SetList(list, []runtime.Object{})
	return list
}
