package kube

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/wire/entry"
)

// droppedFields has the fields of a protobuf message to leave out, by number. A field whose
// value is not nil is a message, which is kept without the fields of that value.
type droppedFields map[protowire.Number]droppedFields

var (
	containerDropped = droppedFields{
		2: nil, 3: nil, 4: nil, 5: nil, 6: nil, 8: nil, 9: nil, // image to volumeMounts, but env
		10: nil, 11: nil, 12: nil, 22: nil, // probes, lifecycle
		13: nil, 14: nil, 15: nil, 20: nil, 21: nil, 23: nil, // policies, securityContext, volumeDevices
	}
	// graphPodDropped are the fields of a pod that the node authorizer does not read, and that
	// are most of its bytes. A field that a later version adds is kept.
	//
	// Upstream: k8s.io/kubernetes/plugin/pkg/auth/authorizer/node.Graph.AddPod; compare at each upgrade.
	graphPodDropped = droppedFields{
		objectMeta: {11: nil, 13: nil, 17: nil}, // labels, ownerReferences, managedFields
		podSpec: {
			2: containerDropped, 20: containerDropped, // containers, initContainers
			34: {1: containerDropped},          // ephemeralContainers
			18: nil, 22: nil, 28: nil, 33: nil, // affinity, tolerations, readinessGates, topologySpreadConstraints
		},
		podStatus: {2: nil, 8: nil, 10: nil, 12: nil, 13: nil, 16: nil}, // conditions, states of containers, addresses
	}
)

// appendKept appends a message without the dropped fields. It returns false if the message is
// malformed.
func (dropped droppedFields) appendKept(kept, message []byte) ([]byte, bool) {
	for len(message) > 0 {
		number, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return nil, false
		}
		size := protowire.ConsumeFieldValue(number, kind, message[tag:])
		if size < 0 {
			return nil, false
		}
		field := message[:tag+size]
		message = message[tag+size:]
		inner, listed := dropped[number]
		switch {
		case !listed:
			kept = append(kept, field...)
		case inner != nil:
			content, n := protowire.ConsumeBytes(field[tag:])
			if n < 0 {
				return nil, false
			}
			content, ok := inner.appendKept(nil, content)
			if !ok {
				return nil, false
			}
			kept = protowire.AppendBytes(append(kept, field[:tag]...), content)
		}
	}
	return kept, true
}

// graphPod returns a stored pod with the fields at least that the node authorizer reads. That
// takes a third of the time of decoding the whole pod. It returns nil if only Kubernetes'
// decoder can read the pod.
func graphPod(e *entry.Entry) object {
	if e.Opaque() {
		return nil
	}
	pod, ok := &corev1.Pod{}, false
	err := e.Read(func(value []byte) error {
		kind, content, plain := splitEnvelope(value)
		if !plain || kind != podKind {
			return nil
		}
		kept, whole := graphPodDropped.appendKept(nil, content)
		if ok = whole; !ok {
			return nil
		}
		return pod.Unmarshal(kept)
	})
	if err != nil || !ok {
		return nil
	}
	if pod.Spec.ServiceAccountName == "" { // as Kubernetes' defaulting does
		pod.Spec.ServiceAccountName = pod.Spec.DeprecatedServiceAccount
	}
	pod.ResourceVersion = strconv.FormatInt(e.Revision, 10)
	return pod
}

var podKind = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
