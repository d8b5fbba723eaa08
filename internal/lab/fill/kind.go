package fill

import (
	"slices"
	"strings"
)

// Kind names one of the resources that fill writes, in the plural form that
// API paths use.
type Kind string

// The kinds, in the order in which they are written. An object is written after
// the objects that it refers to.
const (
	KindNamespace      Kind = "namespaces"
	KindServiceAccount Kind = "serviceaccounts"
	KindNode           Kind = "nodes"
	KindConfigMap      Kind = "configmaps"
	KindSecret         Kind = "secrets"
	KindDeployment     Kind = "deployments"
	KindReplicaSet     Kind = "replicasets"
	KindPod            Kind = "pods"
	KindService        Kind = "services"
	KindEndpointSlice  Kind = "endpointslices"
	KindLease          Kind = "leases"
	KindEvent          Kind = "events"
	KindCRD            Kind = "customresourcedefinitions"
	// KindCustomObject stands for the custom objects of all definitions.
	KindCustomObject Kind = "customobjects"
)

// Labels of written objects. Every object carries LabelSeed. Every pod carries all
// of them.
const (
	// LabelSeed marks an object as made by fill; its value is the seed.
	LabelSeed = "millrace.io/fill"
	// LabelSlice is shared by exactly SlicePods pods: the replicas of one
	// ReplicaSet, which live in one namespace.
	LabelSlice = "bench.millrace.io/slice"
	// LabelGroup is shared by exactly GroupPods pods over all namespaces.
	LabelGroup = "bench.millrace.io/group"
	// LabelShare divides all pods into Shares equal parts, spread over all
	// slices: pod i is in part i modulo Shares.
	LabelShare = "bench.millrace.io/share"
)

// SlicePods and GroupPods are the numbers of pods that one value of LabelSlice and
// LabelGroup selects. Shares is the number of values of LabelShare.
const (
	SlicePods = 20
	GroupPods = 500
	Shares    = 500
)

// Kinds returns the kinds of a Shape in the order in which they are written.
func Kinds() []Kind {
	return []Kind{
		KindNamespace, KindServiceAccount, KindNode, KindLease, KindConfigMap, KindSecret, KindDeployment, KindReplicaSet, KindPod,
		KindService, KindEndpointSlice, KindEvent, KindCRD, KindCustomObject,
	}
}

// ProfileKinds returns all kinds in the order in which they are written. It adds to Kinds the
// kinds that only a profile has.
func ProfileKinds() []Kind {
	kinds := Kinds()
	last := len(kinds) - len([]Kind{KindCRD, KindCustomObject})
	for _, other := range otherKinds() {
		kinds = slices.Insert(kinds, last, other.kind)
		last++
	}
	return kinds
}

// deletionKinds returns the kinds in the order in which they are removed. It does
// not include custom objects: the server removes them with their definitions.
func deletionKinds() []Kind {
	kinds := []Kind{KindCRD}
	for _, other := range otherKinds() {
		kinds = append(kinds, other.kind)
	}
	return append(kinds,
		KindDeployment, KindReplicaSet, KindEndpointSlice, KindService, KindEvent, KindPod,
		KindSecret, KindConfigMap, KindServiceAccount, KindLease, KindNode, KindNamespace)
}

// Namespaced reports whether objects of the kind are in a namespace.
func (k Kind) Namespaced() bool {
	if other, ok := findOtherKind(k); ok {
		return other.namespaced
	}
	return k != KindNode && k != KindNamespace && k != KindCRD
}

// custom reports whether objects of the kind are definitions or custom objects.
func (k Kind) custom() bool { return k == KindCRD || k == KindCustomObject }

// api returns the API path of the resource's group and version.
func (k Kind) api() string {
	switch k {
	case KindCRD:
		return crdAPI
	case KindDeployment, KindReplicaSet:
		return "/apis/apps/v1"
	case KindEndpointSlice:
		return "/apis/discovery.k8s.io/v1"
	case KindLease:
		return "/apis/coordination.k8s.io/v1"
	}
	if other, ok := findOtherKind(k); ok {
		return other.api
	}
	return "/api/v1"
}

// storageDir returns the directory below etcd's key prefix that holds the kind.
func (k Kind) storageDir() string {
	switch k {
	case KindNode:
		return "minions" // the name nodes had when the layout was fixed
	case KindService:
		return "services/specs"
	}
	return string(k)
}

// noun returns the kind in words, in the singular if n is 1.
func (k Kind) noun(n int64) string {
	var s string
	switch k {
	case KindServiceAccount:
		s = "service accounts"
	case KindConfigMap:
		s = "config maps"
	case KindReplicaSet:
		s = "replica sets"
	case KindEndpointSlice:
		s = "endpoint slices"
	case KindCRD:
		s = "definitions"
	case KindCustomObject:
		s = "custom objects"
	default:
		s = string(k)
	}
	if n == 1 {
		return strings.TrimSuffix(s, "s")
	}
	return s
}
