package kube

import "google.golang.org/protobuf/encoding/protowire"

// Numbers of fields in k8s.io/apimachinery/pkg/runtime/generated.proto,
// k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto and
// k8s.io/api/core/v1/generated.proto.
const (
	unknownTypeMeta, unknownRaw, unknownContentType = 1, 2, 4
	typeAPIVersion, typeKind                        = 1, 2
	podMeta, podSpec, podStatus                     = 1, 2, 3
	metaLabels                                      = 11
	mapKey, mapValue                                = 1, 2

	specRestartPolicy, specServiceAccount, specOldServiceAccount = 3, 8, 9
	specNodeName, specHostNetwork, specScheduler                 = 10, 11, 19
	statusPhase, statusIP, statusNominated, statusIPs            = 1, 6, 11, 12
	addressIP                                                    = 1
)

var storageMagic = []byte("k8s\x00")

// byteFields are the fields of a message of nothing but byte strings, numbered up to most.
func byteFields(encoded []byte, most protowire.Number) (fields [unknownContentType + 1][]byte, ok bool) {
	ok = true
	walked := eachField(encoded, func(number protowire.Number, content []byte, _ uint64) {
		if number > most || content == nil || fields[number] != nil {
			ok = false
			return
		}
		fields[number] = content
	})
	return fields, walked && ok
}

// scannedFields is some fields of a protobuf message, by number.
type scannedFields struct {
	bytes  [20][]byte
	number [20]uint64
}

func (m *scannedFields) text(number int) string { return string(m.bytes[number]) }

// scanMessage reads fields that may stand in a message once. It returns false for a
// malformed message and for a field that is repeated, which is for a decoder to
// merge.
func scanMessage(encoded []byte, wanted ...int) (scannedFields, bool) {
	var m scannedFields
	var want, seen uint32
	for _, n := range wanted {
		want |= 1 << n
	}
	once := true
	walked := eachField(encoded, func(number protowire.Number, content []byte, varint uint64) {
		if number >= protowire.Number(len(m.bytes)) || want&(1<<number) == 0 {
			return
		}
		once = once && seen&(1<<number) == 0
		seen |= 1 << number
		m.bytes[number], m.number[number] = content, varint
	})
	return m, walked && once
}

// eachField visits the fields of a message. It returns false if the message is
// malformed, or has groups, which Kubernetes' types have not.
func eachField(encoded []byte, visit func(number protowire.Number, content []byte, varint uint64)) bool {
	for len(encoded) > 0 {
		number, kind, n := protowire.ConsumeTag(encoded)
		if n < 0 {
			return false
		}
		encoded = encoded[n:]
		var content []byte
		var varint uint64
		switch kind {
		case protowire.BytesType:
			content, n = protowire.ConsumeBytes(encoded)
		case protowire.VarintType:
			varint, n = protowire.ConsumeVarint(encoded)
		case protowire.Fixed32Type:
			_, n = protowire.ConsumeFixed32(encoded)
		case protowire.Fixed64Type:
			_, n = protowire.ConsumeFixed64(encoded)
		default:
			return false
		}
		if n < 0 {
			return false
		}
		encoded = encoded[n:]
		visit(number, content, varint)
	}
	return true
}
