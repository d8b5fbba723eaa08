package sentobject

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Field numbers of runtime.Unknown, lists, objects, and their metadata, which are the same
// for all kinds of Kubernetes' API.
const (
	envelopeRaw     protowire.Number = 2
	listItem        protowire.Number = 2
	metadataField   protowire.Number = 1
	listRevision    protowire.Number = 2
	objectRevision  protowire.Number = 6
	annotationsPair protowire.Number = 12
	mapKey          protowire.Number = 1
	mapValue        protowire.Number = 2
)

const initialEventsEnd = metav1.InitialEventsAnnotationKey

// magic precedes each object.
var magic = []byte("k8s\x00")

// readProtobuf is Read for protobuf. revision is the number of the metadata's field that has
// the resource version.
func readProtobuf(data []byte, revision protowire.Number) (Object, bool) {
	envelope, ok := bytes.CutPrefix(data, magic)
	if !ok {
		return Object{}, false
	}
	start, content, end, ok := findField(envelope, envelopeRaw)
	if !ok {
		return Object{}, false
	}
	from := len(magic)
	o := Object{format: Protobuf, around: [2][]byte{data[:from+start], data[from+end:]}}
	start, metadata, end, ok := findField(content, metadataField)
	if !ok || start != 0 { // what follows it would be cut off
		return Object{}, false
	}
	o.rest = content[end:]
	start, o.revision, end, ok = findField(metadata, revision)
	if !ok {
		return Object{}, false
	}
	o.before, o.after = metadata[:start+protowire.SizeTag(revision)], metadata[end:]
	return o, true
}

// findField finds the first field of a message with that number: where it starts with its tag,
// its content, and where it ends. It returns false if there is none that has content.
func findField(message []byte, wanted protowire.Number) (start int, content []byte, end int, ok bool) {
	for start < len(message) {
		number, kind, n := protowire.ConsumeTag(message[start:])
		if n < 0 {
			return 0, nil, 0, false
		}
		size := protowire.ConsumeFieldValue(number, kind, message[start+n:])
		if size < 0 {
			return 0, nil, 0, false
		}
		end = start + n + size
		if number == wanted {
			content, size = protowire.ConsumeBytes(message[start+n:])
			return start, content, end, kind == protowire.BytesType && size >= 0
		}
		start = end
	}
	return 0, nil, 0, false
}

// unmarkProtobuf is WithoutInitialEventsEnd for protobuf.
func unmarkProtobuf(bookmark []byte) []byte {
	o, ok := readProtobuf(bookmark, objectRevision)
	if !ok {
		return nil
	}
	start, pair, end, ok := findField(o.after, annotationsPair)
	if !ok {
		return nil
	}
	_, key, _, hasKey := findField(pair, mapKey)
	_, value, _, hasValue := findField(pair, mapValue)
	if !hasKey || !hasValue || string(key) != initialEventsEnd || string(value) != "true" {
		return nil
	}
	o.after = append(bytes.Clone(o.after[:start]), o.after[end:]...)
	return o.Append(nil, o.Revision())
}

// Field numbers of metadata.
const (
	uidField   protowire.Number = 5
	labelsPair protowire.Number = 11
)

// Attributes returns the labels and the UID of an object in protobuf. uid is a part of the
// object's bytes, or nil if there is none. It returns false for metadata that is malformed.
func (o *Object) Attributes() (labels map[string]string, uid []byte, ok bool) {
	labels = map[string]string{}
	// The part in front ends with the tag of the resource version.
	for _, part := range [][]byte{o.before[:len(o.before)-protowire.SizeTag(objectRevision)], o.after} {
		for len(part) > 0 {
			number, kind, n := protowire.ConsumeTag(part)
			if n < 0 {
				return nil, nil, false
			}
			size := protowire.ConsumeFieldValue(number, kind, part[n:])
			if size < 0 {
				return nil, nil, false
			}
			content, _ := protowire.ConsumeBytes(part[n:])
			switch number {
			case uidField:
				uid = content
			case labelsPair:
				_, key, _, _ := findField(content, mapKey)
				_, value, _, _ := findField(content, mapValue)
				labels[string(key)] = string(value)
			}
			part = part[n+size:]
		}
	}
	return labels, uid, true
}
