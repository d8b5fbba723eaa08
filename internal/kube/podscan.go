package kube

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/crd"
)

// Scan returns a function that reads labels and selectable fields out of a kind's
// stored bytes, without decoding the object, or nil for kinds that have none. It
// returns false for bytes that are not as usual: they must be decoded. Pods are
// most of what a large cluster stores, and decoding one takes twenty times longer.
// Definitions of custom resources are the largest of what it stores, and decoding
// one takes a hundred times longer.
func Scan(gr schema.GroupResource) func(value []byte) (labels.Set, fields.Set, bool) {
	switch gr {
	case schema.GroupResource{Resource: "pods"}:
		return scanPod
	case apiextensions.Resource("customresourcedefinitions"):
		return crd.Attributes
	}
	return nil
}

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

// scanPod reads what pod.ToSelectableFields would.
func scanPod(value []byte) (labels.Set, fields.Set, bool) {
	kind, content, ok := openStored(value)
	if !ok || kind != corev1.SchemeGroupVersion.WithKind("Pod") {
		return nil, nil, false
	}
	pod, ok := scan(content, podMeta, podSpec, podStatus)
	if !ok {
		return nil, nil, false
	}
	set, ok := scanLabels(pod.bytes[podMeta])
	if !ok {
		return nil, nil, false
	}
	selectable, ok := scanFields(pod.bytes[podSpec], pod.bytes[podStatus])
	return set, selectable, ok
}

func scanFields(spec, status []byte) (fields.Set, bool) {
	s, ok := scan(spec, specRestartPolicy, specServiceAccount, specOldServiceAccount, specNodeName, specHostNetwork, specScheduler)
	// Decoding would fill in what is missing.
	if !ok || s.text(specRestartPolicy) == "" || s.text(specScheduler) == "" || s.text(specServiceAccount) != s.text(specOldServiceAccount) {
		return nil, false
	}
	t, ok := scan(status, statusPhase, statusIP, statusNominated)
	if !ok {
		return nil, false
	}
	first, ok := firstIP(status)
	if !ok || first != t.text(statusIP) {
		return nil, false
	}
	return fields.Set{
		"spec.nodeName":            s.text(specNodeName),
		"spec.restartPolicy":       s.text(specRestartPolicy),
		"spec.schedulerName":       s.text(specScheduler),
		"spec.serviceAccountName":  s.text(specServiceAccount),
		"spec.hostNetwork":         strconv.FormatBool(s.number[specHostNetwork] != 0),
		"status.phase":             t.text(statusPhase),
		"status.podIP":             first,
		"status.nominatedNodeName": t.text(statusNominated),
	}, true
}

// firstIP is the address of the first of the status's addresses.
func firstIP(status []byte) (string, bool) {
	first, found, ok := "", false, true
	walked := each(status, func(number protowire.Number, content []byte, _ uint64) {
		if number == statusIPs && !found {
			var address message
			address, ok = scan(content, addressIP)
			first, found = address.text(addressIP), true
		}
	})
	return first, walked && ok
}

func scanLabels(meta []byte) (labels.Set, bool) {
	set, ok := labels.Set{}, true
	walked := each(meta, func(number protowire.Number, content []byte, _ uint64) {
		if number != metaLabels {
			return
		}
		entry, fine := scan(content, mapKey, mapValue)
		ok = ok && fine
		set[entry.text(mapKey)] = entry.text(mapValue)
	})
	return set, walked && ok
}

// message is some fields of a protobuf message, by number.
type message struct {
	bytes  [20][]byte
	number [20]uint64
}

func (m *message) text(number int) string { return string(m.bytes[number]) }

// scan reads fields that may stand in a message once. It returns false for a
// malformed message and for a field that is repeated, which is for a decoder to
// merge.
func scan(encoded []byte, wanted ...int) (message, bool) {
	var m message
	var want, seen uint32
	for _, n := range wanted {
		want |= 1 << n
	}
	once := true
	walked := each(encoded, func(number protowire.Number, content []byte, varint uint64) {
		if number >= protowire.Number(len(m.bytes)) || want&(1<<number) == 0 {
			return
		}
		once = once && seen&(1<<number) == 0
		seen |= 1 << number
		m.bytes[number], m.number[number] = content, varint
	})
	return m, walked && once
}

// each visits the fields of a message. It returns false if the message is
// malformed, or has groups, which Kubernetes' types have not.
func each(encoded []byte, visit func(number protowire.Number, content []byte, varint uint64)) bool {
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
