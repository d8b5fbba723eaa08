package kube

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/millrace/millrace/internal/wire/entry"
)

// metadataScanner returns a scanner for a kind that has no selectable fields but name and
// namespace, as most have. empty is an object of the kind in internal form. It returns nil for
// kinds that Kubernetes' scheme does not know in the group.
//
// It reads objects of the group's preferred version, in which Kubernetes stores most kinds.
// Objects of other versions must be decoded. Defaulting sets labels in some older versions,
// and in kinds that have selectable fields and scanners of their own.
func metadataScanner(group string, empty runtime.Object) func(value []byte) (entry.Scan, bool) {
	kinds, _, err := legacyscheme.Scheme.ObjectKinds(empty)
	versions := legacyscheme.Scheme.PrioritizedVersionsForGroup(group)
	// Kinds in several groups may share a type.
	own := slices.IndexFunc(kinds, func(kind schema.GroupVersionKind) bool { return kind.Group == group })
	if err != nil || own < 0 || len(versions) == 0 {
		return nil
	}
	s := &objectScanner{kind: versions[0].WithKind(kinds[own].Kind), wanted: []int{objectMeta}, fields: noFields}
	return s.scan
}

// scanReplicaSetFields reads the selectable fields of a replica set.
//
// Upstream: k8s.io/kubernetes/pkg/registry/apps/replicaset.ToSelectableFields; compare at each upgrade.
func scanReplicaSetFields(set *scannedFields) (fields.Set, bool) {
	status, ok := scanMessage(set.bytes[replicaSetStatus], statusReplicas)
	return fields.Set{"status.replicas": strconv.Itoa(int(int32(status.number[statusReplicas])))}, ok
}

// scanJobFields reads the selectable fields of a job. It returns false for a job without
// labels: decoding gives it the labels of its pods.
//
// Upstream: k8s.io/kubernetes/pkg/registry/batch/job.JobToSelectableFields; compare at each upgrade.
// Upstream: k8s.io/kubernetes/pkg/apis/batch/v1.SetDefaults_Job; compare at each upgrade.
func scanJobFields(job *scannedFields) (fields.Set, bool) {
	status, ok := scanMessage(job.bytes[jobStatus], statusSucceeded)
	scan, fine := scanMetadata(job.bytes[objectMeta])
	return fields.Set{"status.successful": strconv.Itoa(int(int32(status.number[statusSucceeded])))}, ok && fine && len(scan.Labels) > 0
}

// scanNamespaceFields reads the selectable fields of a namespace. It returns false if the
// label with the name, or the phase, is missing: decoding sets them.
//
// Upstream: k8s.io/kubernetes/pkg/registry/core/namespace.NamespaceToSelectableFields; compare at each upgrade.
// Upstream: k8s.io/kubernetes/pkg/apis/core/v1.SetDefaults_Namespace; compare at each upgrade.
func scanNamespaceFields(namespace *scannedFields) (fields.Set, bool) {
	meta, ok := scanMessage(namespace.bytes[objectMeta], metaName)
	scan, fine := scanMetadata(namespace.bytes[objectMeta])
	status, good := scanMessage(namespace.bytes[namespaceStatus], namespacePhase)
	name, phase := meta.text(metaName), status.text(namespacePhase)
	label, labelled := scan.Labels[corev1.LabelMetadataName]
	return fields.Set{"status.phase": phase, "name": name}, ok && fine && good && phase != "" && labelled && label == name
}

// scanVolumeFields reads the selectable fields of a persistent volume.
//
// Upstream: k8s.io/kubernetes/pkg/registry/core/persistentvolume.PersistentVolumeToSelectableFields; compare at each upgrade.
func scanVolumeFields(volume *scannedFields) (fields.Set, bool) {
	meta, ok := scanMessage(volume.bytes[objectMeta], metaName)
	return fields.Set{"name": meta.text(metaName)}, ok
}
