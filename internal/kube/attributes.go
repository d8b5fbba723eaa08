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

// AttributeScanner returns a function that reads the labels and selectable fields of a
// kind from its stored bytes, without decoding the object. It returns nil for kinds that
// have no such function.
//
// The function returns false for bytes that it does not understand; they must be decoded.
// Pods are most of what a large cluster stores, and decoding one takes twenty times
// longer. Definitions of custom resources are the largest objects, and decoding one takes
// a hundred times longer.
func AttributeScanner(gr schema.GroupResource) func(value []byte) (labels.Set, fields.Set, bool) {
	switch gr {
	case schema.GroupResource{Resource: "pods"}:
		return scanPod
	case apiextensions.Resource("customresourcedefinitions"):
		return crd.Attributes
	}
	return nil
}

// scanPod reads a pod's labels and selectable fields.
func scanPod(value []byte) (labels.Set, fields.Set, bool) {
	kind, content, ok := splitEnvelope(value)
	if !ok || kind != corev1.SchemeGroupVersion.WithKind("Pod") {
		return nil, nil, false
	}
	pod, ok := scanMessage(content, podMeta, podSpec, podStatus)
	if !ok {
		return nil, nil, false
	}
	set, ok := scanLabels(pod.bytes[podMeta])
	if !ok {
		return nil, nil, false
	}
	selectable, ok := scanSelectableFields(pod.bytes[podSpec], pod.bytes[podStatus])
	return set, selectable, ok
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

func scanLabels(meta []byte) (labels.Set, bool) {
	set, ok := labels.Set{}, true
	walked := eachField(meta, func(number protowire.Number, content []byte, _ uint64) {
		if number != metaLabels {
			return
		}
		entry, fine := scanMessage(content, mapKey, mapValue)
		ok = ok && fine
		set[entry.text(mapKey)] = entry.text(mapValue)
	})
	return set, walked && ok
}
