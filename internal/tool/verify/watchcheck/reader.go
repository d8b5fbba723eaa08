package watchcheck

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Reader splits the answer to a watch into frames and decodes them.
type Reader struct {
	split  func() ([]byte, error) // returns the bytes of the next frame
	decode func(raw []byte) (Frame, error)
}

// NewReader returns a Reader for the body of an answer. An error says that contentType is
// neither JSON nor protobuf.
func NewReader(from io.Reader, contentType string) (*Reader, error) {
	switch {
	case strings.HasPrefix(contentType, "application/json"):
		return &Reader{split: splitJSON(from), decode: decodeJSON}, nil
	case strings.HasPrefix(contentType, "application/vnd.kubernetes.protobuf"):
		return &Reader{split: splitByLength(from), decode: decodeProtobuf}, nil
	}
	return nil, fmt.Errorf("read a watch: content type %q is unknown", contentType)
}

// Next reads the next frame. raw has its bytes, with the separator from the frame before; the
// caller owns it. The error is io.EOF if the stream ended after a complete frame. If the frame
// cannot be decoded, raw has all of it.
func (r *Reader) Next() (raw []byte, f Frame, err error) {
	raw, err = r.split()
	if err != nil {
		return raw, Frame{}, err
	}
	f, err = r.decode(raw)
	f.Received = time.Now()
	if err != nil {
		err = fmt.Errorf("read frame %.300q: %w", raw, err)
	}
	return raw, f, err
}

// splitJSON returns a function that splits a stream of JSON values after each value. The error
// that ends the stream comes with the bytes after the last value.
func splitJSON(from io.Reader) func() ([]byte, error) {
	var kept bytes.Buffer
	decoder := json.NewDecoder(io.TeeReader(from, &kept))
	at := int64(0)
	return func() ([]byte, error) {
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return bytes.Clone(kept.Bytes()), err
		}
		end := decoder.InputOffset()
		raw := bytes.Clone(kept.Next(int(end - at)))
		at = end
		return raw, nil
	}
}

// maxFrame is the greatest length of a frame, in bytes. A longer one is taken for a broken
// stream.
const maxFrame = 64 << 20

// splitByLength returns a function that splits a stream of frames that each follow their length
// in four bytes. The length stays in the returned bytes.
func splitByLength(from io.Reader) func() ([]byte, error) {
	return func() ([]byte, error) {
		var header [4]byte
		if n, err := io.ReadFull(from, header[:]); err != nil {
			return header[:n], err
		}
		length := binary.BigEndian.Uint32(header[:])
		if length > maxFrame {
			return header[:], fmt.Errorf("a frame claims %d bytes", length)
		}
		raw := append(header[:], make([]byte, length)...)
		if n, err := io.ReadFull(from, raw[4:]); err != nil {
			return raw[:4+n], io.ErrUnexpectedEOF
		}
		return raw, nil
	}
}

// jsonObject has the fields of an object, or of a Table with the object as its row, that a
// Frame needs.
type jsonObject struct {
	Kind     string             `json:"kind"`
	Metadata *metav1.ObjectMeta `json:"metadata"`
	Rows     []struct {
		Object *struct {
			Metadata *metav1.ObjectMeta `json:"metadata"`
		} `json:"object"`
	} `json:"rows"`
}

// decodeJSON decodes a frame of JSON. In a Table, the metadata is a list's and has only the
// object's resource version. The object's metadata is in its row, if rows have objects at all.
func decodeJSON(raw []byte) (Frame, error) {
	var outer struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := json.Unmarshal(raw, &outer); err != nil {
		return Frame{}, err
	}
	f := Frame{Type: outer.Type}
	if f.Type == Error {
		f.Status = &metav1.Status{}
		return f, json.Unmarshal(outer.Object, f.Status)
	}
	var o jsonObject
	if err := json.Unmarshal(outer.Object, &o); err != nil {
		return f, err
	}
	meta := o.Metadata
	if o.Kind == "Table" {
		if len(o.Rows) == 1 && o.Rows[0].Object != nil && o.Rows[0].Object.Metadata != nil {
			meta = o.Rows[0].Object.Metadata
		} else {
			f.Opaque = true
		}
	}
	if meta == nil {
		return f, fmt.Errorf("no metadata")
	}
	return f, f.fill(meta)
}

// fill sets the fields that an object's metadata has. An error says that the resource version
// is not a number.
func (f *Frame) fill(meta *metav1.ObjectMeta) (err error) {
	f.Key = Key{meta.Namespace, meta.Name}
	f.Labels = meta.Labels
	f.InitialEnd = meta.Annotations[metav1.InitialEventsAnnotationKey] == "true"
	f.Revision, err = strconv.ParseInt(meta.ResourceVersion, 10, 64)
	return err
}

var protobufPrefix = []byte("k8s\x00")

// decodeProtobuf decodes a frame of protobuf, with its length in front. It decodes only the
// metadata, which is the first field of every object.
func decodeProtobuf(raw []byte) (Frame, error) {
	var outer metav1.WatchEvent
	if err := outer.Unmarshal(raw[4:]); err != nil {
		return Frame{}, err
	}
	f := Frame{Type: outer.Type}
	content, ok := bytes.CutPrefix(outer.Object.Raw, protobufPrefix)
	if !ok {
		return f, fmt.Errorf("object without protobuf's prefix")
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(content); err != nil {
		return f, err
	}
	if f.Type == Error {
		f.Status = &metav1.Status{}
		return f, f.Status.Unmarshal(unknown.Raw)
	}
	var o metav1.PartialObjectMetadata
	if err := o.Unmarshal(unknown.Raw); err != nil {
		return f, err
	}
	return f, f.fill(&o.ObjectMeta)
}
