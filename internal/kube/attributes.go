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
	"github.com/millrace/millrace/internal/resource"
)

// AttributeScanner returns a function that reads the labels, the selectable fields and the
// UID of a kind from its stored bytes, without decoding the object. It returns nil for
// kinds that have no such function.
//
// The function returns false for bytes that it does not understand; they must be decoded.
// Pods are most of what a large cluster stores, and decoding one takes twenty times
// longer. Definitions of custom resources are the largest objects, and decoding one takes
// a hundred times longer.
func AttributeScanner(gr schema.GroupResource) func(value []byte) (resource.Scan, bool) {
	switch gr {
	case schema.GroupResource{Resource: "pods"}:
		return scanPod
	case apiextensions.Resource("customresourcedefinitions"):
		return crd.Attributes
	}
	return nil
}

// scanPod reads a pod's labels, selectable fields and UID.
func scanPod(value []byte) (resource.Scan, bool) {
	kind, content, ok := splitEnvelope(value)
	if !ok || kind != corev1.SchemeGroupVersion.WithKind("Pod") {
		return resource.Scan{}, false
	}
	pod, ok := scanMessage(content, podMeta, podSpec, podStatus)
	if !ok {
		return resource.Scan{}, false
	}
	scan, ok := scanMetadata(pod.bytes[podMeta])
	if !ok {
		return resource.Scan{}, false
	}
	scan.Fields, ok = scanSelectableFields(pod.bytes[podSpec], pod.bytes[podStatus])
	return scan, ok
}

// scanSelectableFields reads the selectable fields of a pod but its name and namespace.
//
// Upstream: k8s.io/kubernetes/pkg/registry/core/pod.ToSelectableFields; compare at each upgrade.
func scanSelectableFields(spec, status []byte) (fields.Set, bool) {
	s, ok := scanMessage(spec, specRestartPolicy, specServiceAccount, specOldServiceAccount, specNodeName, specHostNetwork, specScheduler)
	// Decoding would set defaults for missing fields.
	if !ok || s.text(specRestartPolicy) == "" || s.text(specScheduler) == "" || s.text(specServiceAccount) != s.text(specOldServiceAccount) {
		return nil, false
	}
	t, ok := scanMessage(status, statusPhase, statusIP, statusNominated)
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

// firstIP is the first of a pod's addresses; "" if it has none.
func firstIP(status []byte) (string, bool) {
	first, found, ok := "", false, true
	walked := eachField(status, func(number protowire.Number, content []byte, _ uint64) {
		if number == statusIPs && !found {
			var address scannedFields
			address, ok = scanMessage(content, addressIP)
			first, found = address.text(addressIP), true
		}
	})
	return first, walked && ok
}

// scanMetadata reads labels and the UID. Of a UID that is repeated, the last one counts.
func scanMetadata(meta []byte) (resource.Scan, bool) {
	scan, ok := resource.Scan{Labels: labels.Set{}}, true
	walked := eachField(meta, func(number protowire.Number, content []byte, _ uint64) {
		switch number {
		case metaUID:
			scan.UID = content
		case metaLabels:
			entry, fine := scanMessage(content, mapKey, mapValue)
			ok = ok && fine
			scan.Labels[entry.text(mapKey)] = entry.text(mapValue)
		}
	})
	return scan, walked && ok
}
