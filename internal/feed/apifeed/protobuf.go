package apifeed

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// Field numbers of lists and objects, which are the same for all kinds of Kubernetes'
// API, and of k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto.
const (
	listMeta, listItem                                     = 1, 2
	listMetaRevision, listMetaContinue                     = 2, 3
	objectMeta                                             = 1
	metaName, metaNamespace, metaRevision, metaAnnotations = 1, 3, 6, 12
	mapKey, mapValue                                       = 1, 2
)

// maxFrameBytes bounds a frame. Objects are at most a few megabytes.
const maxFrameBytes = 64 << 20

// magic precedes a protobuf object in answers and in etcd.
var magic = []byte("k8s\x00")

var errMalformed = errors.New("malformed protobuf")

// protobufCodec reads protobuf. Items of a list lack the envelope that a stored object
// has, and get one here.
type protobufCodec struct{}

func (protobufCodec) mediaType() string      { return runtime.ContentTypeProtobuf }
func (protobufCodec) watchMediaType() string { return runtime.ContentTypeProtobuf + ";stream=watch" }

func (protobufCodec) list(body []byte) (l list, err error) {
	envelope, err := openEnvelope(body)
	if err != nil {
		return list{}, err
	}
	kind := runtime.TypeMeta{APIVersion: envelope.APIVersion, Kind: strings.TrimSuffix(envelope.Kind, "List")}
	err = eachField(envelope.Raw, func(number protowire.Number, content []byte) error {
		switch number {
		case listMeta:
			return l.readMeta(content)
		case listItem:
			o, err := protobufObject(content)
			if err != nil {
				return err
			}
			o.value, err = closeEnvelope(kind, content)
			l.objects = append(l.objects, o)
			return err
		}
		return nil
	})
	return l, err
}

func (l *list) readMeta(meta []byte) error {
	return eachField(meta, func(number protowire.Number, content []byte) (err error) {
		switch number {
		case listMetaRevision:
			l.revision, err = parseRevision(string(content))
		case listMetaContinue:
			l.next = string(content)
		}
		return err
	})
}

// openEnvelope reads the envelope of an object.
func openEnvelope(data []byte) (*runtime.Unknown, error) {
	data, ok := bytes.CutPrefix(data, magic)
	if !ok {
		return nil, fmt.Errorf("%w: it does not begin as an object of Kubernetes", errMalformed)
	}
	envelope := &runtime.Unknown{}
	return envelope, envelope.Unmarshal(data)
}

// closeEnvelope puts a message into an envelope.
func closeEnvelope(kind runtime.TypeMeta, message []byte) ([]byte, error) {
	envelope := runtime.Unknown{TypeMeta: kind, Raw: message}
	value := make([]byte, len(magic)+envelope.Size())
	copy(value, magic)
	_, err := envelope.MarshalTo(value[len(magic):])
	return value, err
}

// protobufObject reads the metadata of a message. It sets no value.
func protobufObject(message []byte) (o object, err error) {
	err = eachField(message, func(number protowire.Number, content []byte) error {
		if number != objectMeta {
			return nil
		}
		return eachField(content, func(number protowire.Number, content []byte) (err error) {
			switch number {
			case metaName:
				o.name = string(content)
			case metaNamespace:
				o.namespace = string(content)
			case metaRevision:
				o.revision, err = parseRevision(string(content))
			case metaAnnotations:
				err = o.readAnnotation(content)
			}
			return err
		})
	})
	if err == nil && o.revision == 0 {
		err = fmt.Errorf("%w: an object without a resource version", errMalformed)
	}
	return o, err
}

// readAnnotation reads one annotation, for endsInitial.
func (o *object) readAnnotation(pair []byte) error {
	var key, value string
	err := eachField(pair, func(number protowire.Number, content []byte) error {
		switch number {
		case mapKey:
			key = string(content)
		case mapValue:
			value = string(content)
		}
		return nil
	})
	o.endsInitial = o.endsInitial || key == metav1.InitialEventsAnnotationKey && value == "true"
	return err
}

func (protobufCodec) frames(r *bufio.Reader) func() (frame, error) {
	return func() (frame, error) {
		var length [4]byte
		if _, err := io.ReadFull(r, length[:]); err != nil {
			return frame{}, err
		}
		size := binary.BigEndian.Uint32(length[:])
		if size > maxFrameBytes {
			return frame{}, fmt.Errorf("%w: a frame of %d bytes", errMalformed, size)
		}
		data := make([]byte, size)
		if _, err := io.ReadFull(r, data); err != nil {
			return frame{}, err
		}
		return protobufFrame(data)
	}
}

func protobufFrame(data []byte) (frame, error) {
	var event metav1.WatchEvent
	if err := event.Unmarshal(data); err != nil {
		return frame{}, err
	}
	made := frame{kind: apiwatch.EventType(event.Type)}
	envelope, err := openEnvelope(event.Object.Raw)
	if err != nil {
		return frame{}, err
	}
	if made.kind == apiwatch.Error {
		made.status = &metav1.Status{}
		return made, made.status.Unmarshal(envelope.Raw)
	}
	made.object, err = protobufObject(envelope.Raw)
	made.object.value = event.Object.Raw
	return made, err
}

// eachField calls visit for each length-delimited field of a message. It ends at the first
// error.
func eachField(message []byte, visit func(protowire.Number, []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("%w: %w", errMalformed, protowire.ParseError(n))
		}
		message = message[n:]
		if kind == protowire.BytesType {
			content, m := protowire.ConsumeBytes(message)
			if n = m; n >= 0 {
				if err := visit(number, content); err != nil {
					return err
				}
			}
		} else {
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return fmt.Errorf("%w: %w", errMalformed, protowire.ParseError(n))
		}
		message = message[n:]
	}
	return nil
}
