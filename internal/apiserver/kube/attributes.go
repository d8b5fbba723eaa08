package kube

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"

	"github.com/millrace/millrace/internal/apiserver/crd"
	"github.com/millrace/millrace/internal/wire/entry"
)

// AttributeScanner returns a function that reads the labels, the selectable fields and the
// UID of a kind from its stored bytes, without decoding the object. It returns nil for
// kinds that have no such function. empty is an object of the kind in internal form, and
// onlyMetadata says that its selectable fields are its name and namespace.
//
// The function returns false for bytes that must be decoded: it does not understand them, or
// decoding would alter what it reads. Decoding a pod takes twenty times longer, and decoding
// a definition of custom resources a hundred times.
func AttributeScanner(gr schema.GroupResource, empty runtime.Object, onlyMetadata bool) func(value []byte) (entry.Scan, bool) {
	if gr == apiextensions.Resource("customresourcedefinitions") {
		return crd.Attributes
	}
	if s := objectScanners[gr]; s != nil {
		return s.scan
	}
	// Each APIService is decoded, for Usable.
	if onlyMetadata && Altered(gr) == nil && gr.Group != apiregistration.GroupName {
		return metadataScanner(gr.Group, empty)
	}
	return nil
}

// objectScanners are the scanners of kinds in protobuf. Defaulting and conversion change
// labels or selectable fields of these kinds only where the kind's function says so.
var objectScanners = map[schema.GroupResource]*objectScanner{
	{Resource: "pods"}:                                                {kind: corev1.SchemeGroupVersion.WithKind("Pod"), wanted: []int{objectMeta, podSpec, podStatus}, fields: scanPodFields},
	{Resource: "nodes"}:                                               {kind: corev1.SchemeGroupVersion.WithKind("Node"), wanted: []int{objectMeta, nodeSpec}, fields: scanNodeFields},
	{Resource: "events"}:                                              {kind: corev1.SchemeGroupVersion.WithKind("Event"), wanted: []int{objectMeta, eventInvolved, eventReason, eventSource, eventType, eventReporting}, fields: scanEventFields},
	{Resource: "secrets"}:                                             {kind: corev1.SchemeGroupVersion.WithKind("Secret"), wanted: []int{objectMeta, secretType}, fields: scanSecretFields},
	{Resource: "configmaps"}:                                          {kind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), wanted: []int{objectMeta}, fields: noFields},
	{Resource: "namespaces"}:                                          {kind: corev1.SchemeGroupVersion.WithKind("Namespace"), wanted: []int{objectMeta, namespaceStatus}, fields: scanNamespaceFields},
	{Resource: "persistentvolumes"}:                                   {kind: corev1.SchemeGroupVersion.WithKind("PersistentVolume"), wanted: []int{objectMeta}, fields: scanVolumeFields},
	{Group: appsv1.GroupName, Resource: "replicasets"}:                {kind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), wanted: []int{objectMeta, replicaSetStatus}, fields: scanReplicaSetFields},
	{Group: batchv1.GroupName, Resource: "jobs"}:                      {kind: batchv1.SchemeGroupVersion.WithKind("Job"), wanted: []int{objectMeta, jobStatus}, fields: scanJobFields},
	{Group: resourcev1.GroupName, Resource: "resourceclaims"}:         {kind: resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"), wanted: []int{objectMeta}, fields: noFields},
	{Group: resourcev1.GroupName, Resource: "resourceclaimtemplates"}: {kind: resourcev1.SchemeGroupVersion.WithKind("ResourceClaimTemplate"), wanted: []int{objectMeta}, fields: noFields},
}

// objectScanner reads the attributes of one kind.
type objectScanner struct {
	kind schema.GroupVersionKind
	// wanted are the numbers of the object's fields that are scanned: of the metadata, and of
	// all that the function in fields reads.
	wanted []int
	// fields returns the selectable fields but metadata.name and metadata.namespace. It
	// returns false if decoding would give other selectable fields or other labels.
	fields func(*scannedFields) (fields.Set, bool)
}

func (s *objectScanner) scan(value []byte) (entry.Scan, bool) {
	kind, content, ok := splitEnvelope(value)
	if !ok || kind != s.kind {
		return entry.Scan{}, false
	}
	object, ok := scanMessage(content, s.wanted...)
	if !ok {
		return entry.Scan{}, false
	}
	scan, ok := scanMetadata(object.bytes[objectMeta])
	if !ok {
		return entry.Scan{}, false
	}
	scan.Fields, ok = s.fields(&object)
	return scan, ok
}

func noFields(*scannedFields) (fields.Set, bool) { return nil, true }

// scanNodeFields reads the selectable fields of a node.
//
// Upstream: k8s.io/kubernetes/pkg/registry/core/node.NodeToSelectableFields; compare at each upgrade.
func scanNodeFields(node *scannedFields) (fields.Set, bool) {
	spec, ok := scanMessage(node.bytes[nodeSpec], specUnschedulable)
	return fields.Set{"spec.unschedulable": strconv.FormatBool(spec.number[specUnschedulable] != 0)}, ok
}

// scanEventFields reads the selectable fields of an event.
//
// Upstream: k8s.io/kubernetes/pkg/registry/core/event.ToSelectableFields; compare at each upgrade.
func scanEventFields(event *scannedFields) (fields.Set, bool) {
	involved, ok := scanMessage(event.bytes[eventInvolved], referenceKind, referenceNamespace, referenceName, referenceUID, referenceVersion, referenceRevision, referencePath)
	source, fine := scanMessage(event.bytes[eventSource], sourceComponent)
	component := source.text(sourceComponent)
	if component == "" {
		component = event.text(eventReporting)
	}
	return fields.Set{
		"involvedObject.kind":            involved.text(referenceKind),
		"involvedObject.namespace":       involved.text(referenceNamespace),
		"involvedObject.name":            involved.text(referenceName),
		"involvedObject.uid":             involved.text(referenceUID),
		"involvedObject.apiVersion":      involved.text(referenceVersion),
		"involvedObject.resourceVersion": involved.text(referenceRevision),
		"involvedObject.fieldPath":       involved.text(referencePath),
		"reason":                         event.text(eventReason),
		"reportingComponent":             event.text(eventReporting),
		"source":                         component,
		"type":                           event.text(eventType),
	}, ok && fine
}

// scanSecretFields reads the selectable fields of a secret. Decoding sets a missing type.
//
// Upstream: k8s.io/kubernetes/pkg/registry/core/secret.SelectableFields; compare at each upgrade.
func scanSecretFields(secret *scannedFields) (fields.Set, bool) {
	kind := secret.text(secretType)
	return fields.Set{"type": kind}, kind != ""
}

// scanPodFields reads the selectable fields of a pod.
//
// Upstream: k8s.io/kubernetes/pkg/registry/core/pod.ToSelectableFields; compare at each upgrade.
func scanPodFields(pod *scannedFields) (fields.Set, bool) {
	spec, status := pod.bytes[podSpec], pod.bytes[podStatus]
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

// firstIP returns the first of a pod's addresses, or "" if there is none. It returns false
// if it cannot read the status.
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

// scanMetadata reads the labels and the UID. If the UID is repeated, the last one counts.
func scanMetadata(meta []byte) (entry.Scan, bool) {
	scan, ok := entry.Scan{Labels: labels.Set{}}, true
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
