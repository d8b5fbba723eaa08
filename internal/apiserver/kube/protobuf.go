package kube

import "google.golang.org/protobuf/encoding/protowire"

// Field numbers of k8s.io/apimachinery/pkg/runtime/generated.proto,
// k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto, and of core/v1, apps/v1 and batch/v1
// in k8s.io/api. Later versions of these files keep the numbers.
const (
	unknownTypeMeta, unknownRaw, unknownContentType = 1, 2, 4
	typeAPIVersion, typeKind                        = 1, 2
	objectMeta, podSpec, podStatus                  = 1, 2, 3
	metaName, metaUID, metaLabels                   = 1, 5, 11
	mapKey, mapValue                                = 1, 2
	nodeSpec, specUnschedulable                     = 2, 4
	secretType                                      = 3
	replicaSetStatus, statusReplicas                = 3, 1
	jobStatus, statusSucceeded                      = 3, 5
	namespaceStatus, namespacePhase                 = 3, 1

	specRestartPolicy, specServiceAccount, specOldServiceAccount = 3, 8, 9
	specNodeName, specHostNetwork, specScheduler                 = 10, 11, 19
	statusPhase, statusIP, statusNominated, statusIPs            = 1, 6, 11, 12
	addressIP                                                    = 1

	eventInvolved, eventReason, eventSource, eventType, eventReporting = 2, 3, 5, 9, 14
	sourceComponent                                                    = 1
	referenceKind, referenceNamespace, referenceName, referenceUID     = 1, 2, 3, 4
	referenceVersion, referenceRevision, referencePath                 = 5, 6, 7
)

// storageMagic precedes each protobuf object in etcd.
var storageMagic = []byte("k8s\x00")

// byteFields returns the fields of a message that has only byte strings, each at most
// once, with numbers up to maxNumber. It returns false for any other message.
func byteFields(encoded []byte, maxNumber protowire.Number) (fields [unknownContentType + 1][]byte, ok bool) {
	ok = true
	walked := eachField(encoded, func(number protowire.Number, content []byte, _ uint64) {
		if number > maxNumber || content == nil || fields[number] != nil {
			ok = false
			return
		}
		fields[number] = content
	})
	return fields, walked && ok
}

// scannedFields holds some fields of a message: byte strings and varints, indexed by field
// number. The byte strings are parts of the message.
type scannedFields struct {
	bytes  [20][]byte
	number [20]uint64
}

func (m *scannedFields) text(number int) string { return string(m.bytes[number]) }

// scanMessage reads the fields in wanted. It returns false for a malformed message, and for
// one that repeats such a field, which only a decoder can merge.
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

// eachField calls visit for each field of a message. content is the value of a byte string,
// and nil for all others. varint is the value of a varint, and 0 for all others. eachField
// returns false if the message is malformed or has groups, which Kubernetes' types do not use.
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
